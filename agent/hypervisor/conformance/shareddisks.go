package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// A raw volume can be a disk of several VMs at once if each of the VMs shares the volume. Other VMs cannot use the
// volume, and it stays when the VMs are deleted.
func testSharedDisks(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "quorum.raw", Kind: Raw, SizeBytes: 8 << 20})
	h.harness.AddImage(t, p, Image{Name: "image.qcow2", Kind: Qcow2, SizeBytes: 8 << 20})
	shared := fleet.Disk{PoolID: p.ID, Volume: "quorum.raw", Existing: true, Shareable: true}
	alone := shared
	alone.Shareable = false
	first := h.newVM(newDisk(p), shared)
	h.apply(first)
	h.wantNoPendingChanges(first, "created with a shared disk")
	h.requireNoError("start", h.StartVM(h.ctx, first.ID))
	h.wantPower(first.ID, fleet.Running)

	second := h.newVM()
	second.Spec.Disks = []fleet.Disk{shared}
	second.Spec.Disks[0].Bus, second.Spec.Disks[0].Cache = "scsi", "directsync"
	h.apply(second)
	h.apply(second) // a repeated job changes nothing
	h.wantNoPendingChanges(second, "created with the same disk")
	h.requireNoError("start the second VM", h.StartVM(h.ctx, second.ID))
	for _, vm := range []fleet.VM{first, second} {
		h.wantPower(vm.ID, fleet.Running)
		h.wantNoPendingChanges(vm, "started")
	}

	h.requireRefusal("the same disk without sharing", h.ApplyVM(h.ctx, h.applyJob(h.newVM(alone))), "in use by another VM")
	missing, other := shared, shared
	missing.Volume, other.Volume = "nothing.raw", "image.qcow2"
	h.requireRefusal("a missing volume", h.ApplyVM(h.ctx, h.applyJob(h.newVM(missing))), "nothing.raw")
	h.requireRefusal("share a disk that is not raw", h.ApplyVM(h.ctx, h.applyJob(h.newVM(other))), "can share only raw volumes")
	if _, there := h.reportedVolume(p, "nothing.raw"); there {
		t.Error("a missing existing volume was created")
	}

	h.requireNoError("delete the first VM with its disks", h.DeleteVM(h.ctx, first, h.pools, true))
	if _, there := h.reportedVolume(p, "quorum.raw"); !there {
		t.Fatal("the shared volume was deleted with a VM")
	}
	h.wantPower(second.ID, fleet.Running)
	h.requireNoError("stop", h.StopVM(h.ctx, second.ID))
	h.wantPower(second.ID, fleet.Stopped)
	second.Generation++
	second.Spec.Disks = []fleet.Disk{alone}
	h.apply(second)
	h.wantNoPendingChanges(second, "with the disk not shared")
	h.requireRefusal("share a disk that another VM does not share", h.ApplyVM(h.ctx, h.applyJob(h.newVM(shared))), "in use by another VM")
	h.requireNoError("delete the second VM", h.DeleteVM(h.ctx, second, h.pools, true))
	if _, there := h.reportedVolume(p, "quorum.raw"); !there {
		t.Error("a pre-existing volume was deleted with its VM")
	}
}
