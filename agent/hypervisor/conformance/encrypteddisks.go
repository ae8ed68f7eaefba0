package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// An encrypted disk is created, used and deleted like any other disk. No part of the host state contains the disk's
// passphrase.
func testEncryptedDisks(t *testing.T, h *testHost) {
	p := h.newPool()
	secret := newDisk(p)
	secret.Encryption = "luks"
	vm := h.newVM(newDisk(p), secret)
	for range 2 { // a repeated job creates no other passphrase
		h.apply(vm)
		h.wantNoPendingChanges(vm, "created with an encrypted disk")
	}
	for range 2 {
		h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		h.wantPower(vm.ID, fleet.Running)
		h.wantNoPendingChanges(vm, "started")
		h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
		h.wantPower(vm.ID, fleet.Stopped)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.requireRefusal("a snapshot", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "none"})), "is encrypted, so the disk cannot have snapshots")

	more := newDisk(p) // hot-plugged
	more.Encryption = "luks"
	vm.Generation++
	vm.Spec.Disks = append(vm.Spec.Disks, more)
	h.apply(vm)
	if s := h.wantStatus(vm.ID, vm.Generation); len(s.Disks) != 3 || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		t.Errorf("after a disk was hot-plugged, the VM's status is %+v, want three disks and no pending field", s)
	}
	size := func(want int64) {
		t.Helper()
		h.wantNoPendingChanges(vm, "grown")
		if s := h.wantStatus(vm.ID, vm.Generation); s.Disks[1].SizeBytes != want {
			t.Errorf("the disk has %d bytes, want %d", s.Disks[1].SizeBytes, want)
		}
	}
	grow := func(to int64) {
		vm.Generation++
		vm.Spec.Disks = slices.Clone(vm.Spec.Disks)
		vm.Spec.Disks[1].SizeBytes = to
	}
	grow(16 << 20)
	for range 2 {
		h.apply(vm)
		size(16 << 20)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	size(16 << 20)
	grow(24 << 20)
	h.requireRefusal("grow the disk of a stopped VM", h.ApplyVM(h.ctx, h.applyJob(vm)), "while its guest runs")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.apply(vm)
	size(24 << 20)
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	for _, d := range vm.Spec.Disks {
		if _, there := h.reportedVolume(p, d.Volume); there {
			t.Errorf("the volume %s still exists after the VM's deletion", d.Volume)
		}
	}
}
