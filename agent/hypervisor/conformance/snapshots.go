package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// snapshotJob returns a new job for the VM's snapshots.
func (h *testHost) snapshotJob(vm fleet.VM, o fleet.SnapshotParams) hypervisor.SnapshotWork {
	return hypervisor.SnapshotWork{
		VM: vm, Pools: h.pools, Job: fleet.NewID[fleet.JobID](), Params: o, Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

// takeSnapshot takes a snapshot with the name and returns its entry in the VM's status.
func (h *testHost) takeSnapshot(vm fleet.VM, name string, memory bool) fleet.Snapshot {
	h.t.Helper()
	o := fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: name, Description: "before " + name, By: "anna", Memory: memory}
	h.requireNoError("take "+name, h.TakeSnapshot(h.ctx, h.snapshotJob(vm, o)))
	t := h.reportedSnapshots(vm)
	got := t.SnapshotByID(o.ID)
	if got == nil || got.Name != name || got.Description != o.Description || got.By != "anna" || got.At.IsZero() || t.Current != o.ID {
		h.t.Fatalf("after taking %s the VM reports %+v", name, t)
	}
	return *got
}

func (h *testHost) revertToSnapshot(vm fleet.VM, s fleet.Snapshot) {
	h.t.Helper()
	h.requireNoError("revert to "+s.Name, h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: s.ID})))
	if t := h.reportedSnapshots(vm); t.Current != s.ID || t.Unfinished != "" {
		h.t.Fatalf("after the revert to %s the VM reports %+v", s.Name, t)
	}
	h.checkDiskChain(vm)
}

func (h *testHost) deleteSnapshot(vm fleet.VM, s fleet.Snapshot, subtree bool) {
	h.t.Helper()
	h.requireNoError("delete "+s.Name, h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: s.ID, Subtree: subtree})))
	if t := h.reportedSnapshots(vm); t.SnapshotByID(s.ID) != nil {
		h.t.Fatalf("%s still exists: %+v", s.Name, t)
	}
	h.checkDiskChain(vm)
}

// reportedSnapshots returns the VM's reported snapshots. It is empty if the VM reports none.
func (h *testHost) reportedSnapshots(vm fleet.VM) fleet.SnapshotTree {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, vm.ID)
	h.requireNoError("read the VM", err)
	if len(s.Faults)+len(s.Drift) > 0 {
		h.t.Fatalf("the VM has faults %v, drift %v", s.Faults, s.Drift)
	}
	if s.Snapshots == nil {
		return fleet.SnapshotTree{}
	}
	return *s.Snapshots
}

// currentDiskFile returns the path of the file that the VM writes to.
func (h *testHost) currentDiskFile(vm fleet.VM) string {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, vm.ID)
	h.requireNoError("read the VM", err)
	if len(s.Disks) == 0 {
		h.t.Fatal("the VM has no disk")
	}
	return s.Disks[0].Path
}

func (h *testHost) checkDiskChain(vm fleet.VM) {
	h.t.Helper()
	h.harness.CheckDisk(h.t, h.currentDiskFile(vm))
}

func (h *testHost) writeDisk(vm fleet.VM, b byte) { h.harness.WriteDisk(h.t, h.currentDiskFile(vm), b) }

func (h *testHost) wantDiskData(vm fleet.VM, want byte) {
	h.t.Helper()
	if got := h.harness.ReadDisk(h.t, h.currentDiskFile(vm)); got != want {
		h.t.Fatalf("the disk has %q, want %q", got, want)
	}
}

// wantVolumeCount fails the test unless the pool has n volumes.
func (h *testHost) wantVolumeCount(p fleet.Pool, n int) {
	h.t.Helper()
	var names []string
	for _, v := range h.poolStatus(p).Volumes {
		names = append(names, v.Name)
	}
	if len(names) != n {
		h.t.Fatalf("the pool has %v, want %d volumes", names, n)
	}
}

func testSnapshotsOfStoppedVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p), newDisk(p))
	h.writeDisk(vm, 'a')
	one := h.takeSnapshot(vm, "one", false)
	h.checkDiskChain(vm)
	h.writeDisk(vm, 'b')
	two := h.takeSnapshot(vm, "two", false)
	h.writeDisk(vm, 'c')
	if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 2 || tree.Snapshots[1].Parent != one.ID || tree.Depth != 3 || two.Memory || len(two.Disks) != 2 {
		t.Fatalf("two snapshots: %+v", tree)
	}
	h.revertToSnapshot(vm, one)
	h.wantDiskData(vm, 'a')
	h.wantPower(vm.ID, fleet.Stopped)
	h.writeDisk(vm, 'd')
	h.revertToSnapshot(vm, two)
	h.wantDiskData(vm, 'b')
	h.requireNoError("revert and start", h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID, Start: true})))
	h.wantPower(vm.ID, fleet.Running)
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskData(vm, 'a')
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	tree := h.reportedSnapshots(vm)
	if s := tree.SnapshotByID(one.ID); len(s.Changed) != 1 || s.Changed[0] != "vCPUs 1 → 2" {
		t.Errorf("the changes since the snapshot are %q, want the vCPUs", s.Changed)
	}
	h.deleteSnapshot(vm, two, false)
	h.wantDiskData(vm, 'a')
	h.deleteSnapshot(vm, one, false)
	h.wantDiskData(vm, 'a')
	h.wantVolumeCount(p, 2)
	if s := h.wantStatus(vm.ID, 2); s.Snapshots != nil || s.Disks[0].Path != p.Spec.Path+"/"+vm.Spec.Disks[0].Volume {
		t.Fatalf("after the last deletion: %+v, %+v", s.Snapshots, s.Disks)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotsOfRunningVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	one := h.takeSnapshot(vm, "one", false)
	if one.Note == "" || one.Memory {
		t.Errorf("the snapshot without memory is %+v, want a note", one)
	}
	two, three := h.takeSnapshot(vm, "two", false), h.takeSnapshot(vm, "three", false)
	h.wantPower(vm.ID, fleet.Running)
	h.deleteSnapshot(vm, two, false) // in the middle of the chain
	h.wantPower(vm.ID, fleet.Running)
	if tree := h.reportedSnapshots(vm); tree.Depth != 3 || tree.SnapshotByID(three.ID).Parent != one.ID {
		t.Fatalf("without the middle snapshot: %+v", tree)
	}
	h.deleteSnapshot(vm, one, false) // at the root
	h.deleteSnapshot(vm, three, false)
	h.wantVolumeCount(p, 1)
	if s := h.wantPower(vm.ID, fleet.Running); s.Snapshots != nil || len(s.NextBoot) > 0 {
		t.Fatalf("after the last deletion: %+v, at its next start %v", s.Snapshots, s.NextBoot)
	}
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskData(vm, 'a')
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
}

func testSnapshotMemory(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	one := h.takeSnapshot(vm, "one", true)
	if !one.Memory || one.Bytes == 0 || one.Note != "" {
		t.Errorf("the snapshot with memory is %+v, want its size and no note", one)
	}
	h.wantPower(vm.ID, fleet.Running)
	h.requireNoError("pause", h.PauseVM(h.ctx, vm.ID))
	two := h.takeSnapshot(vm, "two", true)
	h.wantPower(vm.ID, fleet.Paused)
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.revertToSnapshot(vm, one)
	h.wantPower(vm.ID, fleet.Running)
	h.revertToSnapshot(vm, two)
	h.wantPower(vm.ID, fleet.Paused)
	if s := h.wantStatus(vm.ID, 1); len(s.NextBoot) > 0 {
		t.Errorf("after the revert, the fields pending until the next boot are %v, want none", s.NextBoot)
	}
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	vm.Generation, vm.Spec.MemoryMiB, vm.Name = 2, 192, vm.Name+"-else"
	h.apply(vm)
	h.revertToSnapshot(vm, one)
	if s := h.wantPower(vm.ID, fleet.Running); s.MemoryMiB != 128 || !slices.Equal(s.NextBoot, []string{"name", "memoryMiB"}) {
		t.Errorf("after the revert, the VM has %d MiB and the pending fields %v", s.MemoryMiB, s.NextBoot)
	}
	h.deleteSnapshot(vm, one, true)
	h.wantPower(vm.ID, fleet.Running)
	h.wantVolumeCount(p, 1)
}

func testSnapshotBranches(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	root := h.takeSnapshot(vm, "root", false)
	h.writeDisk(vm, 'b')
	left := h.takeSnapshot(vm, "left", false)
	h.writeDisk(vm, 'c')
	leaf := h.takeSnapshot(vm, "leaf", false)
	h.revertToSnapshot(vm, root)
	h.writeDisk(vm, 'd')
	right := h.takeSnapshot(vm, "right", false)
	h.writeDisk(vm, 'e')
	h.deleteSnapshot(vm, root, false) // the root backs two files, so its data stays
	if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 4 || !tree.Snapshots[0].Deleted || tree.Merges != 0 {
		t.Fatalf("without the root: %+v", tree)
	}
	h.wantDiskData(vm, 'e')
	h.revertToSnapshot(vm, leaf)
	h.wantDiskData(vm, 'c')
	h.revertToSnapshot(vm, right)
	h.wantDiskData(vm, 'd')
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID)) // files outside the guest's chain are merged meanwhile
	h.deleteSnapshot(vm, left, false)
	h.deleteSnapshot(vm, right, false)
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskData(vm, 'd')
	h.revertToSnapshot(vm, leaf)
	h.wantDiskData(vm, 'c')
	if tree := h.reportedSnapshots(vm); tree.Depth != 3 || tree.Merges != 1 {
		t.Fatalf("with the leaf and its backing file: %+v", tree)
	}
	h.requireNoError("merge", h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{})))
	if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 1 || tree.Depth != 2 || tree.Merges != 0 {
		t.Fatalf("with only the leaf: %+v", tree)
	}
	h.deleteSnapshot(vm, leaf, true)
	h.wantDiskData(vm, 'c')
	h.wantVolumeCount(p, 1)
}

func testRepeatedSnapshotJob(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	in := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "one"})
	h.requireNoError("take", h.TakeSnapshot(h.ctx, in))
	h.requireNoError("repeat the job", h.TakeSnapshot(h.ctx, in))
	if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 1 {
		t.Fatalf("after the repeated job: %+v", tree)
	}
	h.writeDisk(vm, 'b')
	back := h.snapshotJob(vm, fleet.SnapshotParams{ID: in.Params.ID})
	h.requireNoError("revert", h.RevertSnapshot(h.ctx, back))
	h.writeDisk(vm, 'c')
	h.requireNoError("repeat the job", h.RevertSnapshot(h.ctx, back))
	h.wantDiskData(vm, 'c')
	gone := h.snapshotJob(vm, fleet.SnapshotParams{ID: in.Params.ID})
	h.requireNoError("delete", h.DeleteSnapshot(h.ctx, gone))
	h.requireNoError("repeat the job", h.DeleteSnapshot(h.ctx, gone))
	h.wantDiskData(vm, 'c')
}

func testSnapshotRefused(t *testing.T, h *testHost) {
	p, other := h.newPool(), h.newPool()
	vm := h.definedVM(newDisk(p))
	none := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID]()})
	if err := h.RevertSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("revert to a missing snapshot: the error is %v, want fleet.NotFound", err)
	}
	if err := h.DeleteSnapshot(h.ctx, none); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("delete a missing snapshot: the error is %v, want fleet.NotFound", err)
	}
	h.requireRefusal("take a snapshot of a VM without disks", h.TakeSnapshot(h.ctx, h.snapshotJob(h.definedVM(), none.Params)), "no disk")
	one := h.takeSnapshot(vm, "one", false)
	h.writeDisk(vm, 'b')
	h.takeSnapshot(vm, "two", false)
	h.revertToSnapshot(vm, one) // so that one file is in no chain in use
	for _, v := range h.poolStatus(p).Volumes {
		if !slices.Contains(v.UsedBy, vm.ID) {
			t.Errorf("the volume %s is not reported as used by the VM", v.Name)
		}
		h.requireRefusal("delete the volume "+v.Name, h.DeleteVolume(h.ctx, h.newVolumeJob(p, v.Name, fleet.VolumeParams{})), vm.Name)
		h.requireRefusal("wipe the volume "+v.Name, h.WipeVolume(h.ctx, h.newVolumeJob(p, v.Name, fleet.VolumeParams{})), "")
	}
	h.requireRefusal("move the disk", h.MoveDisk(h.ctx, h.moveJob(vm, other)), "")
	grown := vm
	grown.Generation, grown.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
	grown.Spec.Disks[0].SizeBytes *= 2
	h.requireRefusal("grow the disk", h.ApplyVM(h.ctx, h.applyJob(grown)), "")
	bare := vm
	bare.Generation, bare.Spec.Disks = 3, nil
	h.requireRefusal("remove the disk", h.ApplyVM(h.ctx, h.applyJob(bare)), "snapshots")
	h.requireRefusal("delete the VM without its disks", h.DeleteVM(h.ctx, vm, h.pools, false), "snapshots")
	h.requireRefusal("release the pool", h.ReleasePool(h.ctx, p), "")
	h.wantVolumeCount(p, 3)
	h.requireNoError("delete the VM with its data", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.wantVolumeCount(p, 0)
}

func testUnmanagedSnapshots(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	drop := h.harness.TakeUnmanagedSnapshot(t, vm.ID, "theirs")
	h.waitUntil("the other snapshot is reported", func() bool { return slices.Equal(h.reportedSnapshots(vm).Others, []string{"theirs"}) })
	h.requireRefusal("take a snapshot beside the other one", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "ours"})), "theirs")
	drop()
	one := h.takeSnapshot(vm, "ours", false)
	drop = h.harness.TakeUnmanagedSnapshot(t, vm.ID, "theirs")
	for what, err := range map[string]error{
		"revert past the other snapshot": h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})),
		"merge the other snapshot":       h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})),
	} {
		h.requireRefusal(what, err, "theirs")
	}
	drop()
	h.deleteSnapshot(vm, one, false)
}
