package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// snap returns a new order for the VM's snapshots.
func (h *host) snap(vm fleet.VM, o fleet.SnapshotOrder) hypervisor.SnapshotWork {
	return hypervisor.SnapshotWork{
		VM: vm, Pools: h.pools, Job: fleet.NewID[fleet.JobID](), Order: o, Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

// take takes a snapshot of that name and returns its entry in the VM's status.
func (h *host) take(vm fleet.VM, name string, memory bool) fleet.Snapshot {
	h.t.Helper()
	o := fleet.SnapshotOrder{ID: fleet.NewID[fleet.SnapshotID](), Name: name, Description: "before " + name, By: "anna", Memory: memory}
	h.must("take "+name, h.TakeSnapshot(h.ctx, h.snap(vm, o)))
	t := h.tree(vm)
	got := t.Of(o.ID)
	if got == nil || got.Name != name || got.Description != o.Description || got.By != "anna" || got.At.IsZero() || t.Current != o.ID {
		h.t.Fatalf("after taking %s the VM reports %+v", name, t)
	}
	return *got
}

func (h *host) revert(vm fleet.VM, s fleet.Snapshot) {
	h.t.Helper()
	h.must("go back to "+s.Name, h.RevertSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: s.ID})))
	if t := h.tree(vm); t.Current != s.ID || t.Unfinished != "" {
		h.t.Fatalf("back at %s the VM reports %+v", s.Name, t)
	}
	h.sound(vm)
}

func (h *host) drop(vm fleet.VM, s fleet.Snapshot, subtree bool) {
	h.t.Helper()
	h.must("delete "+s.Name, h.DeleteSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: s.ID, Subtree: subtree})))
	if t := h.tree(vm); t.Of(s.ID) != nil {
		h.t.Fatalf("%s is still there: %+v", s.Name, t)
	}
	h.sound(vm)
}

// tree returns the VM's reported snapshots; empty if it reports none.
func (h *host) tree(vm fleet.VM) fleet.SnapshotTree {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, vm.ID)
	h.must("read the VM", err)
	if len(s.Faults)+len(s.Drift) > 0 {
		h.t.Fatalf("the VM has faults %v, drift %v", s.Faults, s.Drift)
	}
	if s.Snapshots == nil {
		return fleet.SnapshotTree{}
	}
	return *s.Snapshots
}

// file returns the path that the VM writes to.
func (h *host) file(vm fleet.VM) string {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, vm.ID)
	h.must("read the VM", err)
	if len(s.Disks) == 0 {
		h.t.Fatal("the VM has no disk")
	}
	return s.Disks[0].Path
}

func (h *host) sound(vm fleet.VM) {
	h.t.Helper()
	h.h.CheckDisk(h.t, h.file(vm))
}

func (h *host) write(vm fleet.VM, b byte) { h.h.WriteDisk(h.t, h.file(vm), b) }

func (h *host) wantData(vm fleet.VM, want byte) {
	h.t.Helper()
	if got := h.h.ReadDisk(h.t, h.file(vm)); got != want {
		h.t.Fatalf("the disk has %q, want %q", got, want)
	}
}

// wantVolumes fails the test unless the pool has n volumes.
func (h *host) wantVolumes(p fleet.Pool, n int) {
	h.t.Helper()
	var names []string
	for _, v := range h.poolStatus(p).Volumes {
		names = append(names, v.Name)
	}
	if len(names) != n {
		h.t.Fatalf("the pool has %v, want %d volumes", names, n)
	}
}

func testSnapshots(t *testing.T, h *host) {
	p := h.pool()
	vm := h.made(disk(p), disk(p))
	h.write(vm, 'a')
	one := h.take(vm, "one", false)
	h.sound(vm)
	h.write(vm, 'b')
	two := h.take(vm, "two", false)
	h.write(vm, 'c')
	if tree := h.tree(vm); len(tree.Snapshots) != 2 || tree.Snapshots[1].Parent != one.ID || tree.Depth != 3 || two.Memory || len(two.Disks) != 2 {
		t.Fatalf("two snapshots: %+v", tree)
	}
	h.revert(vm, one)
	h.wantData(vm, 'a')
	h.wantPower(vm.ID, fleet.Stopped)
	h.write(vm, 'd')
	h.revert(vm, two)
	h.wantData(vm, 'b')
	h.must("go back and start", h.RevertSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: one.ID, Start: true})))
	h.wantPower(vm.ID, fleet.Running)
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'a')
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	tree := h.tree(vm)
	if s := tree.Of(one.ID); len(s.Changed) != 1 || s.Changed[0] != "vCPUs 1 → 2" {
		t.Errorf("what is else since: %q", s.Changed)
	}
	h.drop(vm, two, false)
	h.wantData(vm, 'a')
	h.drop(vm, one, false)
	h.wantData(vm, 'a')
	h.wantVolumes(p, 2)
	if s := h.status(vm.ID, 2); s.Snapshots != nil || s.Disks[0].Path != p.Spec.Path+"/"+vm.Spec.Disks[0].Volume {
		t.Fatalf("after the last one: %+v, %+v", s.Snapshots, s.Disks)
	}
	h.must("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotsRunning(t *testing.T, h *host) {
	p := h.pool()
	vm := h.made(disk(p))
	h.write(vm, 'a')
	h.must("start", h.StartVM(h.ctx, vm.ID))
	one := h.take(vm, "one", false)
	if one.Note == "" || one.Memory {
		t.Errorf("without memory: %+v", one)
	}
	two, three := h.take(vm, "two", false), h.take(vm, "three", false)
	h.wantPower(vm.ID, fleet.Running)
	h.drop(vm, two, false) // in the middle of the chain
	h.wantPower(vm.ID, fleet.Running)
	if tree := h.tree(vm); tree.Depth != 3 || tree.Of(three.ID).Parent != one.ID {
		t.Fatalf("without the one in the middle: %+v", tree)
	}
	h.drop(vm, one, false) // at the root
	h.drop(vm, three, false)
	h.wantVolumes(p, 1)
	if s := h.wantPower(vm.ID, fleet.Running); s.Snapshots != nil || len(s.NextBoot) > 0 {
		t.Fatalf("after the last one: %+v, at its next start %v", s.Snapshots, s.NextBoot)
	}
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'a')
	h.must("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotMemory(t *testing.T, h *host) {
	p := h.pool()
	vm := h.started(disk(p))
	one := h.take(vm, "one", true)
	if !one.Memory || one.Bytes == 0 || one.Note != "" {
		t.Errorf("with memory: %+v", one)
	}
	h.wantPower(vm.ID, fleet.Running)
	h.must("pause", h.PauseVM(h.ctx, vm.ID))
	two := h.take(vm, "two", true)
	h.wantPower(vm.ID, fleet.Paused)
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.revert(vm, one)
	h.wantPower(vm.ID, fleet.Running)
	h.revert(vm, two)
	h.wantPower(vm.ID, fleet.Paused)
	if s := h.status(vm.ID, 1); len(s.NextBoot) > 0 {
		t.Errorf("at its next start: %v", s.NextBoot)
	}
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	vm.Generation, vm.Spec.MemoryMiB, vm.Name = 2, 192, vm.Name+"-else"
	h.apply(vm)
	h.revert(vm, one)
	if s := h.wantPower(vm.ID, fleet.Running); s.MemoryMiB != 128 || !slices.Equal(s.NextBoot, []string{"name", "memoryMiB"}) {
		t.Errorf("with another size since: it has %d MiB, at its next start %v", s.MemoryMiB, s.NextBoot)
	}
	h.drop(vm, one, true)
	h.wantPower(vm.ID, fleet.Running)
	h.wantVolumes(p, 1)
}

func testSnapshotBranches(t *testing.T, h *host) {
	p := h.pool()
	vm := h.made(disk(p))
	h.write(vm, 'a')
	root := h.take(vm, "root", false)
	h.write(vm, 'b')
	left := h.take(vm, "left", false)
	h.write(vm, 'c')
	leaf := h.take(vm, "leaf", false)
	h.revert(vm, root)
	h.write(vm, 'd')
	right := h.take(vm, "right", false)
	h.write(vm, 'e')
	h.drop(vm, root, false) // it backs two files: its data stays
	if tree := h.tree(vm); len(tree.Snapshots) != 4 || !tree.Snapshots[0].Deleted || tree.Merges != 0 {
		t.Fatalf("without the root: %+v", tree)
	}
	h.wantData(vm, 'e')
	h.revert(vm, leaf)
	h.wantData(vm, 'c')
	h.revert(vm, right)
	h.wantData(vm, 'd')
	h.must("start", h.StartVM(h.ctx, vm.ID)) // files outside its chain are merged meanwhile
	h.drop(vm, left, false)
	h.drop(vm, right, false)
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'd')
	h.revert(vm, leaf)
	h.wantData(vm, 'c')
	if tree := h.tree(vm); tree.Depth != 3 || tree.Merges != 1 {
		t.Fatalf("with the leaf, and what it stands on: %+v", tree)
	}
	h.must("merge", h.DeleteSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{})))
	if tree := h.tree(vm); len(tree.Snapshots) != 1 || tree.Depth != 2 || tree.Merges != 0 {
		t.Fatalf("with the leaf alone: %+v", tree)
	}
	h.drop(vm, leaf, true)
	h.wantData(vm, 'c')
	h.wantVolumes(p, 1)
}

func testSnapshotOnce(t *testing.T, h *host) {
	p := h.pool()
	vm := h.made(disk(p))
	h.write(vm, 'a')
	in := h.snap(vm, fleet.SnapshotOrder{ID: fleet.NewID[fleet.SnapshotID](), Name: "one"})
	h.must("take", h.TakeSnapshot(h.ctx, in))
	h.must("the same order again", h.TakeSnapshot(h.ctx, in))
	if tree := h.tree(vm); len(tree.Snapshots) != 1 {
		t.Fatalf("taken twice: %+v", tree)
	}
	h.write(vm, 'b')
	back := h.snap(vm, fleet.SnapshotOrder{ID: in.Order.ID})
	h.must("go back", h.RevertSnapshot(h.ctx, back))
	h.write(vm, 'c')
	h.must("the same order again", h.RevertSnapshot(h.ctx, back))
	h.wantData(vm, 'c')
	gone := h.snap(vm, fleet.SnapshotOrder{ID: in.Order.ID})
	h.must("delete", h.DeleteSnapshot(h.ctx, gone))
	h.must("the same order again", h.DeleteSnapshot(h.ctx, gone))
	h.wantData(vm, 'c')
}

func testSnapshotRefused(t *testing.T, h *host) {
	p, other := h.pool(), h.pool()
	vm := h.made(disk(p))
	none := h.snap(vm, fleet.SnapshotOrder{ID: fleet.NewID[fleet.SnapshotID]()})
	if err := h.RevertSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("back to none: %v", err)
	}
	if err := h.DeleteSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("delete none: %v", err)
	}
	h.refused("of a VM without disks", h.TakeSnapshot(h.ctx, h.snap(h.made(), none.Order)), "no disk")
	one := h.take(vm, "one", false)
	h.write(vm, 'b')
	h.take(vm, "two", false)
	h.revert(vm, one) // so that a file is in no chain in use
	for _, v := range h.poolStatus(p).Volumes {
		if !slices.Contains(v.UsedBy, vm.ID) {
			t.Errorf("nobody uses %s", v.Name)
		}
		h.refused("delete the volume "+v.Name, h.DeleteVolume(h.ctx, h.work(p, v.Name, fleet.VolumeOrder{})), vm.Name)
		h.refused("wipe the volume "+v.Name, h.WipeVolume(h.ctx, h.work(p, v.Name, fleet.VolumeOrder{})), "")
	}
	h.refused("move the disk", h.MoveDisk(h.ctx, h.move(vm, other)), "")
	grown := vm
	grown.Generation, grown.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
	grown.Spec.Disks[0].SizeBytes *= 2
	h.refused("grow the disk", h.ApplyVM(h.ctx, h.order(grown)), "")
	bare := vm
	bare.Generation, bare.Spec.Disks = 3, nil
	h.refused("take the disk away", h.ApplyVM(h.ctx, h.order(bare)), "snapshots")
	h.refused("delete the VM alone", h.DeleteVM(h.ctx, vm, h.pools, false), "snapshots")
	h.refused("release the pool", h.ReleasePool(h.ctx, p), "")
	h.wantVolumes(p, 3)
	h.must("delete the VM with its data", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.wantVolumes(p, 0)
}

func testForeignSnapshots(t *testing.T, h *host) {
	p := h.pool()
	vm := h.made(disk(p))
	drop := h.h.ForeignSnapshot(t, vm.ID, "theirs")
	h.eventually("their snapshot shows", func() bool { return slices.Equal(h.tree(vm).Others, []string{"theirs"}) })
	h.refused("take one beside theirs", h.TakeSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: fleet.NewID[fleet.SnapshotID](), Name: "ours"})), "theirs")
	drop()
	one := h.take(vm, "ours", false)
	drop = h.h.ForeignSnapshot(t, vm.ID, "theirs")
	for what, err := range map[string]error{
		"go back past theirs": h.RevertSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: one.ID})),
		"merge theirs":        h.DeleteSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: one.ID})),
	} {
		h.refused(what, err, "theirs")
	}
	drop()
	h.drop(vm, one, false)
}
