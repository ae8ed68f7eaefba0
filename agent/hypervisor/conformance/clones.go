package conformance

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// The disks of a new VM are copied from a snapshot of a running VM: later writes of the guest are not in the copy.
// During the copy, the running VM's snapshots cannot change.
func testCloneFromSnapshot(t *testing.T, h *testHost) {
	p, other, known := h.newPool(), h.newPool(), recordedChecksums{}
	vm := h.definedVM(newDisk(p))
	source := vm.Spec.Disks[0]
	h.writeDisk(vm, 'a')
	one := h.takeSnapshot(vm, "one", false)
	h.writeDisk(vm, 'b')
	two := h.takeSnapshot(vm, "two", false)
	h.writeDisk(vm, 'c')
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	volumes := len(h.poolStatus(p).Volumes)
	copyOf := func(s fleet.SnapshotID, to fleet.Pool, name string) hypervisor.VolumeWork {
		w := known.recordingJob(h.newVolumeJob(to, name, fleet.VolumeParams{Source: source.Volume, Flatten: true, Snapshot: &fleet.SnapshotRef{VMID: vm.ID, ID: s}}))
		if to.ID != p.ID {
			w.Params.SourcePool, w.SourcePool = p.ID, &p
		}
		return w
	}
	for i, c := range []struct {
		of   fleet.Snapshot
		to   fleet.Pool
		want byte
	}{{one, p, 'a'}, {two, other, 'b'}} {
		copied := newDisk(c.to)
		copied.SizeBytes = source.SizeBytes
		clone := h.newVM(copied)
		w := copyOf(c.of.ID, c.to, copied.Volume)
		w.RecordFile = func(string) error {
			h.requireRefusal("delete the snapshot while it is copied", h.DeleteSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: c.of.ID})), "being copied")
			h.requireRefusal("revert while the snapshot is copied", h.RevertSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})), "being copied")
			h.requireRefusal("delete the VM while its snapshot is copied", h.DeleteVM(h.ctx, vm, h.pools, true), "being copied")
			return nil
		}
		h.requireNoError("copy "+c.of.Name, h.CopyVolume(h.ctx, w))
		order := h.applyJob(clone)
		order.CreatedDisks = []fleet.Volref{copied.Ref()}
		h.requireNoError("create the VM", h.ApplyVM(h.ctx, order))
		h.wantDiskData(clone, c.want)
		if v := h.volumeWithChecksums(known, c.to, copied.Volume); v.Backing != "" || v.CapacityBytes != source.SizeBytes || v.SHA256 == "" {
			t.Errorf("the disk copied from the snapshot %s is %+v, want a full copy with a checksum", c.of.Name, v)
		}
		h.requireNoError("start the new VM", h.StartVM(h.ctx, clone.ID))
		if i == 0 {
			volumes++
		}
	}
	if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 2 || tree.Current != two.ID || tree.Unfinished != "" {
		t.Errorf("after the copies, the VM's snapshots are %+v, want two, with the second one current", tree)
	}
	h.wantVolumeCount(p, volumes)
	h.deleteSnapshot(vm, one, true)
	for what, id := range map[string]fleet.SnapshotID{"a deleted snapshot": one.ID, "a missing snapshot": fleet.NewID[fleet.SnapshotID]()} {
		h.requireRefusal("copy "+what, h.CopyVolume(h.ctx, copyOf(id, p, "late.qcow2")), "no longer has this snapshot")
	}
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskData(vm, 'c')
	h.wantVolumeCount(p, 2)
}

// A clone is a VM whose disks were copied from another VM's disks before ApplyVM. ApplyVM uses the copies, and never
// creates an empty disk for a missing copy.
func testApplyUsesCopiedDisks(t *testing.T, h *testHost) {
	p, other, known := h.newPool(), h.newPool(), recordedChecksums{}
	h.harness.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	h.requireNoError("hash", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, "golden.qcow2", fleet.VolumeParams{}))))
	linked := newDisk(p)
	linked.SizeBytes, linked.Image, linked.Overlay = 0, &fleet.Volref{PoolID: p.ID, Volume: "golden.qcow2"}, true
	linked.ImageID, linked.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
	for _, c := range []struct {
		name string
		of   fleet.VM
	}{{"an empty disk", h.definedVM(newDisk(p))}, {"a linked one", h.definedVM(linked)}} {
		source := h.volumeWithChecksums(known, p, c.of.Spec.Disks[0].Volume)
		for _, to := range []fleet.Pool{p, other} {
			copied := newDisk(to)
			copied.SizeBytes = source.CapacityBytes
			clone := h.newVM(copied)
			order := h.applyJob(clone)
			order.CreatedDisks = []fleet.Volref{copied.Ref()}
			h.requireRefusal("create the clone of "+c.name+" without its copy", h.ApplyVM(h.ctx, order), "not on")
			if _, ok := h.reportedVolume(to, copied.Volume); ok {
				t.Fatalf("%s: an empty disk was created instead of a copy", c.name)
			}
			w := known.recordingJob(h.newVolumeJob(to, copied.Volume, fleet.VolumeParams{Source: c.of.Spec.Disks[0].Volume, Flatten: true}))
			if to.ID != p.ID {
				w.Params.SourcePool, w.SourcePool = p.ID, &p
			}
			file := ""
			w.RecordFile = func(made string) error { file = made; return nil }
			h.requireNoError("copy "+c.name, h.CopyVolume(h.ctx, w))
			if w.RecordedFile = file; file != "" {
				h.requireNoError("repeat the copy", h.CopyVolume(h.ctx, w))
			}
			h.requireNoError("create the clone", h.ApplyVM(h.ctx, order))
			v := h.volumeWithChecksums(known, to, copied.Volume)
			if v.Backing != "" || v.CapacityBytes != source.CapacityBytes || len(v.UsedBy) != 1 || v.UsedBy[0] != clone.ID {
				t.Errorf("%s: the clone's disk is %+v, want a full copy that only the clone uses", c.name, v)
			}
			h.requireNoError("start the clone", h.StartVM(h.ctx, clone.ID))
		}
		if now := h.volumeWithChecksums(known, p, c.of.Spec.Disks[0].Volume); now.Backing != source.Backing || now.CapacityBytes != source.CapacityBytes || len(now.BackingUsers) != 0 {
			t.Errorf("%s: the copy changed the source disk to %+v, before %+v", c.name, now, source)
		}
		h.requireNoError("start the cloned VM", h.StartVM(h.ctx, c.of.ID))
	}
}

// temporarySnapshotCopy is the copy of a VM's disk from a temporary snapshot. The portal sends three jobs for it, one after the
// other: take the snapshot, copy the disk, delete the snapshot.
type temporarySnapshotCopy struct {
	take, drop hypervisor.SnapshotWork
	copy       hypervisor.VolumeWork
}

func (h *testHost) newTemporarySnapshotCopy(vm fleet.VM, p fleet.Pool, name string) *temporarySnapshotCopy {
	id := fleet.NewID[fleet.SnapshotID]()
	out := &temporarySnapshotCopy{
		take: h.snapshotJob(vm, fleet.SnapshotParams{ID: id, Name: "Temporary", Quiesce: true}),
		drop: h.snapshotJob(vm, fleet.SnapshotParams{ID: id}),
		copy: h.newVolumeJob(p, name, fleet.VolumeParams{Source: vm.Spec.Disks[0].Volume, Flatten: true, Snapshot: &fleet.SnapshotRef{VMID: vm.ID, ID: id}}),
	}
	out.copy.RecordChecksums = func(...hypervisor.VolumeChecksum) error { return nil }
	return out
}

func testCloneOfRunningVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	copied := newDisk(p)
	copied.SizeBytes = vm.Spec.Disks[0].SizeBytes
	clone := h.newVM(copied)
	in := h.newTemporarySnapshotCopy(vm, p, copied.Volume)
	h.requireNoError("take the temporary snapshot", h.TakeSnapshot(h.ctx, in.take))
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.writeDisk(vm, 'b') // simulates a write of the guest
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	h.requireNoError("copy the disk", h.CopyVolume(h.ctx, in.copy))
	h.wantPower(vm.ID, fleet.Running)
	h.requireNoError("delete the temporary snapshot", h.DeleteSnapshot(h.ctx, in.drop))
	if s := h.wantPower(vm.ID, fleet.Running); s.Snapshots != nil || len(s.NextBoot)+len(s.Drift)+len(s.Faults) > 0 {
		t.Errorf("after the snapshot's deletion, the VM's status is %+v, want no snapshot, drift or fault", s)
	}
	h.wantVolumeCount(p, 2)
	order := h.applyJob(clone)
	order.CreatedDisks = []fleet.Volref{copied.Ref()}
	h.requireNoError("create the clone", h.ApplyVM(h.ctx, order))
	if v, _ := h.reportedVolume(p, copied.Volume); v.Backing != "" {
		t.Errorf("the clone's disk is backed by %s, want no backing file", v.Backing)
	}
	h.wantDiskData(clone, 'a')
	h.requireNoError("start the clone", h.StartVM(h.ctx, clone.ID))
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskData(vm, 'b')
}
