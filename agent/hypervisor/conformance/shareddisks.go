package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// A raw volume can be a disk of several VMs at once if each of the VMs shares the volume. Other VMs cannot use the
// volume, and it stays when the VMs are deleted.
func testSharedDisks(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "quorum.raw", Kind: Raw, SizeBytes: 8 << 20})
	h.h.AddImage(t, p, Image{Name: "image.qcow2", Kind: Qcow2, SizeBytes: 8 << 20})
	shared := fleet.Disk{PoolID: p.ID, Volume: "quorum.raw", Existing: true, Shareable: true}
	alone := shared
	alone.Shareable = false
	first := h.newVM(disk(p), shared)
	h.apply(first)
	h.wantSettled(first, "created with a shared disk")
	h.must("start", h.StartVM(h.ctx, first.ID))
	h.wantPower(first.ID, fleet.Running)

	second := h.newVM()
	second.Spec.Disks = []fleet.Disk{shared}
	second.Spec.Disks[0].Bus, second.Spec.Disks[0].Cache = "scsi", "directsync"
	h.apply(second)
	h.apply(second) // a repeated job changes nothing
	h.wantSettled(second, "created with the same disk")
	h.must("start the second VM", h.StartVM(h.ctx, second.ID))
	for _, vm := range []fleet.VM{first, second} {
		h.wantPower(vm.ID, fleet.Running)
		h.wantSettled(vm, "started")
	}

	h.refused("the same disk without sharing", h.ApplyVM(h.ctx, h.applyJob(h.newVM(alone))), "in use by another VM")
	missing, other := shared, shared
	missing.Volume, other.Volume = "nothing.raw", "image.qcow2"
	h.refused("a missing volume", h.ApplyVM(h.ctx, h.applyJob(h.newVM(missing))), "nothing.raw")
	h.refused("share a disk that is not raw", h.ApplyVM(h.ctx, h.applyJob(h.newVM(other))), "can share only raw volumes")
	if _, there := h.volume(p, "nothing.raw"); there {
		t.Error("a missing existing volume was created")
	}

	h.must("delete the first VM with its disks", h.DeleteVM(h.ctx, first, h.pools, true))
	if _, there := h.volume(p, "quorum.raw"); !there {
		t.Fatal("the shared volume was deleted with a VM")
	}
	h.wantPower(second.ID, fleet.Running)
	h.must("stop", h.StopVM(h.ctx, second.ID))
	h.wantPower(second.ID, fleet.Stopped)
	second.Generation++
	second.Spec.Disks = []fleet.Disk{alone}
	h.apply(second)
	h.wantSettled(second, "with the disk not shared")
	h.refused("share a disk that another VM does not share", h.ApplyVM(h.ctx, h.applyJob(h.newVM(shared))), "in use by another VM")
	h.must("delete the second VM", h.DeleteVM(h.ctx, second, h.pools, true))
	if _, there := h.volume(p, "quorum.raw"); !there {
		t.Error("a pre-existing volume was deleted with its VM")
	}
}
