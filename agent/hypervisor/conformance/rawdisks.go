package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// A raw disk is a raw file, either empty or a copy of an image of any format. It is created, grown and removed like any
// disk, and its content is never probed for a format.
func testRawDisks(t *testing.T, h *testHost) {
	p, other := h.newPool(), h.newPool()
	h.harness.AddImage(t, p, Image{Name: "base.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	h.harness.AddImage(t, p, Image{Name: "base.img", Kind: Raw, SizeBytes: 4 << 20})
	plain := func(image string, size int64) fleet.Disk {
		d := newDisk(p)
		d.SizeBytes, d.Format = size, fleet.Raw
		d.Volume = d.NewVolumeName(d.Volume, fleet.PoolDir)
		if image != "" {
			d.Image = &fleet.Volref{PoolID: p.ID, Volume: image}
		}
		return d
	}
	vm := h.newVM(plain("", 8<<20), plain("base.qcow2", 8<<20), plain("base.img", 0), newDisk(p))
	for range 2 { // a repeated job changes nothing
		h.apply(vm)
		h.wantNoPendingChanges(vm, "created with raw disks")
	}
	for i, size := range []int64{8 << 20, 8 << 20, 4 << 20} {
		h.wantVolume(p, vm.Spec.Disks[i].Volume, "raw", size)
	}
	h.wantVolume(p, vm.Spec.Disks[3].Volume, "qcow2", 8<<20)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")
	h.requireRefusal("a snapshot", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "none"})), "is a raw file, so the disk cannot have snapshots")

	grow := func(size int64) {
		t.Helper()
		vm = vmWithDiskSize(vm, size)
		for range 2 {
			h.apply(vm)
			h.wantNoPendingChanges(vm, "grown")
		}
		if s := h.wantStatus(vm.ID, vm.Generation); s.Disks[0].SizeBytes != size {
			t.Errorf("the disk has %d bytes, want %d", s.Disks[0].SizeBytes, size)
		}
	}
	grow(16 << 20)
	more := plain("", 1<<20) // hot-plugged
	vm.Spec.Disks = append(vm.Spec.Disks, more)
	vm.Generation++
	h.apply(vm)
	if s := h.wantStatus(vm.ID, vm.Generation); len(s.Disks) != 5 || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		t.Errorf("after a disk was hot-plugged, the VM's status is %+v, want five disks and no pending field", s)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.wantNoPendingChanges(vm, "stopped")
	grow(24 << 20)
	h.wantVolume(p, vm.Spec.Disks[0].Volume, "raw", 24<<20)
	h.requireRefusal("a move", h.MoveDisk(h.ctx, h.moveJob(vm, other)), "as a raw file")
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	for _, d := range vm.Spec.Disks {
		if _, there := h.reportedVolume(p, d.Volume); there {
			t.Errorf("the volume %s still exists after the VM's deletion", d.Volume)
		}
	}
}
