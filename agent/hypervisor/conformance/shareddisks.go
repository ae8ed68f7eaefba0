package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// A raw volume can be a disk of several VMs at once if each of them shares it. No other VM gets it, and it outlives
// them all.
func testSharedDisks(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "quorum.raw", Kind: Raw, SizeBytes: 8 << 20})
	h.h.AddImage(t, p, Image{Name: "image.qcow2", Kind: Qcow2, SizeBytes: 8 << 20})
	shared := fleet.Disk{PoolID: p.ID, Volume: "quorum.raw", Existing: true, Shareable: true}
	alone := shared
	alone.Shareable = false
	first := h.vm(disk(p), shared)
	h.apply(first)
	h.wantSettled(first, "made with a shared disk")
	h.must("start", h.StartVM(h.ctx, first.ID))
	h.wantPower(first.ID, fleet.Running)

	second := h.vm()
	second.Spec.Disks = []fleet.Disk{shared}
	second.Spec.Disks[0].Bus, second.Spec.Disks[0].Cache = "scsi", "directsync"
	h.apply(second)
	h.apply(second) // a repeated order changes nothing
	h.wantSettled(second, "made with the same disk")
	h.must("start beside it", h.StartVM(h.ctx, second.ID))
	for _, vm := range []fleet.VM{first, second} {
		h.wantPower(vm.ID, fleet.Running)
		h.wantSettled(vm, "started")
	}

	h.refused("the same disk for itself", h.ApplyVM(h.ctx, h.order(h.vm(alone))), "in use by another VM")
	missing, other := shared, shared
	missing.Volume, other.Volume = "nothing.raw", "image.qcow2"
	h.refused("a missing volume", h.ApplyVM(h.ctx, h.order(h.vm(missing))), "nothing.raw")
	h.refused("what is not raw", h.ApplyVM(h.ctx, h.order(h.vm(other))), "can share only raw volumes")
	if _, there := h.volume(p, "nothing.raw"); there {
		t.Error("a volume was made that was to be there")
	}

	h.must("delete one with its disks", h.DeleteVM(h.ctx, first, h.pools, true))
	if _, there := h.volume(p, "quorum.raw"); !there {
		t.Fatal("the shared volume went with a VM")
	}
	h.wantPower(second.ID, fleet.Running)
	h.must("stop", h.StopVM(h.ctx, second.ID))
	h.wantPower(second.ID, fleet.Stopped)
	second.Generation++
	second.Spec.Disks = []fleet.Disk{alone}
	h.apply(second)
	h.wantSettled(second, "with the disk for itself")
	h.refused("a shared one that another has for itself", h.ApplyVM(h.ctx, h.order(h.vm(shared))), "in use by another VM")
	h.must("delete the other", h.DeleteVM(h.ctx, second, h.pools, true))
	if _, there := h.volume(p, "quorum.raw"); !there {
		t.Error("a volume that was there before its VM went with it")
	}
}
