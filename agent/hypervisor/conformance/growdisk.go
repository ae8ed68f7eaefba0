package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// vmWithDiskSize returns the VM at its next generation, with its first disk resized.
func vmWithDiskSize(vm fleet.VM, size int64) fleet.VM {
	disks := append([]fleet.Disk{}, vm.Spec.Disks...)
	disks[0].SizeBytes = size
	vm.Spec.Disks = disks
	vm.Generation++
	return vm
}

// wantDiskSize fails the test unless the VM's only disk has the size, in its definition and for its guest, without a
// pending change.
func (h *testHost) wantDiskSize(vm fleet.VM, size int64) {
	h.t.Helper()
	h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
	if s := h.wantStatus(vm.ID, vm.Generation); s.Disks[0].SizeBytes != size {
		h.t.Errorf("the disk has %d bytes, want %d", s.Disks[0].SizeBytes, size)
	}
}

func testGrowDisk(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	ref := vm.Spec.Disks[0].Ref()
	vm = vmWithDiskSize(vm, 16<<20)
	for range 2 {
		h.apply(vm)
		h.wantDiskSize(vm, 16<<20)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantDiskSize(vm, 16<<20)
	vm = vmWithDiskSize(vm, 24<<20)
	for range 2 {
		h.apply(vm)
		h.wantDiskSize(vm, 24<<20)
	}
	// A smaller size never shrinks the disk, neither through the spec nor through a job.
	vm = vmWithDiskSize(vm, 8<<20)
	h.apply(vm)
	h.wantDiskSize(vm, 24<<20)
	vm = vmWithDiskSize(vm, 20<<20)
	h.apply(vm)
	h.wantDiskSize(vm, 24<<20)
	h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
	h.wantDiskSize(vm, 24<<20)
	h.wantVolume(p, ref.Volume, "qcow2", 24<<20)
}

func testGrowDiskRefused(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "base.qcow2", Kind: Qcow2, SizeBytes: 8 << 20})
	base := fleet.Volref{PoolID: p.ID, Volume: "base.qcow2"}
	over := newDisk(p)
	over.Image, over.Overlay, over.VersionID = &base, true, "version"
	vm := h.definedVM(over)
	// A disk that is an overlay of an image grows, and the image keeps its size.
	vm = vmWithDiskSize(vm, 16<<20)
	h.apply(vm)
	if s := h.wantStatus(vm.ID, vm.Generation); s.Disks[0].SizeBytes != 16<<20 {
		t.Errorf("the overlay has %d bytes, want 16 MiB", s.Disks[0].SizeBytes)
	}
	// A disk does not grow while an unmanaged overlay in another volume is backed by it.
	below := h.definedVM(newDisk(p))
	top := newDisk(p)
	ref := below.Spec.Disks[0].Ref()
	h.harness.AddOverlay(t, p, top.Volume, ref.Volume)
	grown := vmWithDiskSize(below, 32<<20)
	h.requireRefusal("grow the backing file of "+top.Volume, h.ApplyVM(h.ctx, h.applyJob(grown)), top.Volume)
	if v, _ := h.reportedVolume(p, ref.Volume); v.CapacityBytes != 8<<20 {
		t.Errorf("after the refused growth, the disk has %d bytes, want 8 MiB", v.CapacityBytes)
	}
	h.harness.DeleteVolume(t, p, top.Volume)
	h.apply(grown)
	h.wantDiskSize(grown, 32<<20)
}
