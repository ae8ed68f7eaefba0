package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// snapshotJob returns a new job for the VM's snapshots.
func (h *host) snapshotJob(vm fleet.VM, o fleet.SnapshotParams) hypervisor.SnapshotWork {
	return hypervisor.SnapshotWork{
		VM: vm, Pools: h.pools, Job: fleet.NewID[fleet.JobID](), Order: o, Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

// take takes a snapshot with the name and returns its entry in the VM's status.
func (h *host) take(vm fleet.VM, name string, memory bool) fleet.Snapshot {
	h.t.Helper()
	o := fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: name, Description: "before " + name, By: "anna", Memory: memory}
	h.must("take "+name, h.TakeSnapshot(h.ctx, h.snapshotJob(vm, o)))
	t := h.tree(vm)
	got := t.ByID(o.ID)
	if got == nil || got.Name != name || got.Description != o.Description || got.By != "anna" || got.At.IsZero() || t.Current != o.ID {
		h.t.Fatalf("after taking %s the VM reports %+v", name, t)
	}
	return *got
}

func (h *host) revert(vm fleet.VM, s fleet.Snapshot) {
	h.t.Helper()
	h.must("revert to "+s.Name, h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: s.ID})))
	if t := h.tree(vm); t.Current != s.ID || t.Unfinished != "" {
		h.t.Fatalf("after the revert to %s the VM reports %+v", s.Name, t)
	}
	h.checkChains(vm)
}

func (h *host) drop(vm fleet.VM, s fleet.Snapshot, subtree bool) {
	h.t.Helper()
	h.must("delete "+s.Name, h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: s.ID, Subtree: subtree})))
	if t := h.tree(vm); t.ByID(s.ID) != nil {
		h.t.Fatalf("%s still exists: %+v", s.Name, t)
	}
	h.checkChains(vm)
}

// tree returns the VM's reported snapshots. It is empty if the VM reports none.
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

// file returns the path of the file that the VM writes to.
func (h *host) file(vm fleet.VM) string {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, vm.ID)
	h.must("read the VM", err)
	if len(s.Disks) == 0 {
		h.t.Fatal("the VM has no disk")
	}
	return s.Disks[0].Path
}

func (h *host) checkChains(vm fleet.VM) {
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
	vm := h.definedVM(disk(p), disk(p))
	h.write(vm, 'a')
	one := h.take(vm, "one", false)
	h.checkChains(vm)
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
	h.must("revert and start", h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID, Start: true})))
	h.wantPower(vm.ID, fleet.Running)
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'a')
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	tree := h.tree(vm)
	if s := tree.ByID(one.ID); len(s.Changed) != 1 || s.Changed[0] != "vCPUs 1 → 2" {
		t.Errorf("the changes since the snapshot: %q", s.Changed)
	}
	h.drop(vm, two, false)
	h.wantData(vm, 'a')
	h.drop(vm, one, false)
	h.wantData(vm, 'a')
	h.wantVolumes(p, 2)
	if s := h.status(vm.ID, 2); s.Snapshots != nil || s.Disks[0].Path != p.Spec.Path+"/"+vm.Spec.Disks[0].Volume {
		t.Fatalf("after the last deletion: %+v, %+v", s.Snapshots, s.Disks)
	}
	h.must("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotsRunning(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
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
	if tree := h.tree(vm); tree.Depth != 3 || tree.ByID(three.ID).Parent != one.ID {
		t.Fatalf("without the middle snapshot: %+v", tree)
	}
	h.drop(vm, one, false) // at the root
	h.drop(vm, three, false)
	h.wantVolumes(p, 1)
	if s := h.wantPower(vm.ID, fleet.Running); s.Snapshots != nil || len(s.NextBoot) > 0 {
		t.Fatalf("after the last deletion: %+v, at its next start %v", s.Snapshots, s.NextBoot)
	}
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'a')
	h.must("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotMemory(t *testing.T, h *host) {
	p := h.pool()
	vm := h.runningVM(disk(p))
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
		t.Errorf("after a change of the memory: the VM has %d MiB, at its next start %v", s.MemoryMiB, s.NextBoot)
	}
	h.drop(vm, one, true)
	h.wantPower(vm.ID, fleet.Running)
	h.wantVolumes(p, 1)
}

func testSnapshotBranches(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
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
	h.drop(vm, root, false) // the root backs two files, so its data stays
	if tree := h.tree(vm); len(tree.Snapshots) != 4 || !tree.Snapshots[0].Deleted || tree.Merges != 0 {
		t.Fatalf("without the root: %+v", tree)
	}
	h.wantData(vm, 'e')
	h.revert(vm, leaf)
	h.wantData(vm, 'c')
	h.revert(vm, right)
	h.wantData(vm, 'd')
	h.must("start", h.StartVM(h.ctx, vm.ID)) // files outside the guest's chain are merged meanwhile
	h.drop(vm, left, false)
	h.drop(vm, right, false)
	h.must("force off", h.StopVM(h.ctx, vm.ID))
	h.wantData(vm, 'd')
	h.revert(vm, leaf)
	h.wantData(vm, 'c')
	if tree := h.tree(vm); tree.Depth != 3 || tree.Merges != 1 {
		t.Fatalf("with the leaf and its backing file: %+v", tree)
	}
	h.must("merge", h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{})))
	if tree := h.tree(vm); len(tree.Snapshots) != 1 || tree.Depth != 2 || tree.Merges != 0 {
		t.Fatalf("with only the leaf: %+v", tree)
	}
	h.drop(vm, leaf, true)
	h.wantData(vm, 'c')
	h.wantVolumes(p, 1)
}

func testSnapshotOnce(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	h.write(vm, 'a')
	in := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "one"})
	h.must("take", h.TakeSnapshot(h.ctx, in))
	h.must("repeat the job", h.TakeSnapshot(h.ctx, in))
	if tree := h.tree(vm); len(tree.Snapshots) != 1 {
		t.Fatalf("after the repeated job: %+v", tree)
	}
	h.write(vm, 'b')
	back := h.snapshotJob(vm, fleet.SnapshotParams{ID: in.Order.ID})
	h.must("revert", h.RevertSnapshot(h.ctx, back))
	h.write(vm, 'c')
	h.must("repeat the job", h.RevertSnapshot(h.ctx, back))
	h.wantData(vm, 'c')
	gone := h.snapshotJob(vm, fleet.SnapshotParams{ID: in.Order.ID})
	h.must("delete", h.DeleteSnapshot(h.ctx, gone))
	h.must("repeat the job", h.DeleteSnapshot(h.ctx, gone))
	h.wantData(vm, 'c')
}

func testSnapshotRefused(t *testing.T, h *host) {
	p, other := h.pool(), h.pool()
	vm := h.definedVM(disk(p))
	none := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID]()})
	if err := h.RevertSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("revert to a missing snapshot: %v", err)
	}
	if err := h.DeleteSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("delete a missing snapshot: %v", err)
	}
	h.refused("take a snapshot of a VM without disks", h.TakeSnapshot(h.ctx, h.snapshotJob(h.definedVM(), none.Order)), "no disk")
	one := h.take(vm, "one", false)
	h.write(vm, 'b')
	h.take(vm, "two", false)
	h.revert(vm, one) // so that one file is in no chain in use
	for _, v := range h.poolStatus(p).Volumes {
		if !slices.Contains(v.UsedBy, vm.ID) {
			t.Errorf("%s has no user", v.Name)
		}
		h.refused("delete the volume "+v.Name, h.DeleteVolume(h.ctx, h.volumeJob(p, v.Name, fleet.VolumeParams{})), vm.Name)
		h.refused("wipe the volume "+v.Name, h.WipeVolume(h.ctx, h.volumeJob(p, v.Name, fleet.VolumeParams{})), "")
	}
	h.refused("move the disk", h.MoveDisk(h.ctx, h.moveJob(vm, other)), "")
	grown := vm
	grown.Generation, grown.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
	grown.Spec.Disks[0].SizeBytes *= 2
	h.refused("grow the disk", h.ApplyVM(h.ctx, h.applyJob(grown)), "")
	bare := vm
	bare.Generation, bare.Spec.Disks = 3, nil
	h.refused("remove the disk", h.ApplyVM(h.ctx, h.applyJob(bare)), "snapshots")
	h.refused("delete the VM without its disks", h.DeleteVM(h.ctx, vm, h.pools, false), "snapshots")
	h.refused("release the pool", h.ReleasePool(h.ctx, p), "")
	h.wantVolumes(p, 3)
	h.must("delete the VM with its data", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.wantVolumes(p, 0)
}

func testForeignSnapshots(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	drop := h.h.ForeignSnapshot(t, vm.ID, "theirs")
	h.eventually("the other snapshot is reported", func() bool { return slices.Equal(h.tree(vm).Others, []string{"theirs"}) })
	h.refused("take a snapshot beside the other one", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "ours"})), "theirs")
	drop()
	one := h.take(vm, "ours", false)
	drop = h.h.ForeignSnapshot(t, vm.ID, "theirs")
	for what, err := range map[string]error{
		"revert past the other snapshot": h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})),
		"merge the other snapshot":       h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})),
	} {
		h.refused(what, err, "theirs")
	}
	drop()
	h.drop(vm, one, false)
}
