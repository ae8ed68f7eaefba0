package conformance

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func testVolumeUsers(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	h.harness.AddImage(t, p, Image{Name: "tools.iso", Kind: ISO, SizeBytes: 1 << 20})
	vm := h.newVM(newDisk(p))
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)
	for volume, want := range map[string][]fleet.VMID{vm.Spec.Disks[0].Volume: {vm.ID}, "golden.qcow2": nil, "tools.iso": nil} {
		if v, ok := h.reportedVolume(p, volume); !ok || !slices.Equal(v.UsedBy, want) {
			t.Errorf("%s is used by %q, want %q", volume, v.UsedBy, want)
		}
	}
	h.requireNoError("delete without its disks", h.DeleteVM(h.ctx, vm, h.pools, false))
	if v, ok := h.reportedVolume(p, vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) != 0 {
		t.Errorf("after the VM's deletion, its disk is %+v, want an unused volume", v)
	}
	h.apply(vm) // so that the test's cleanup deletes its disk
}

func testGuestDiskRefusedAsImage(t *testing.T, h *testHost) {
	p := h.newPool()
	owner := h.definedVM(newDisk(p))
	taken := &fleet.Volref{PoolID: p.ID, Volume: owner.Spec.Disks[0].Volume}
	d := newDisk(p)
	d.Image = taken
	h.requireRefusal("clone another VM's disk", h.ApplyVM(h.ctx, h.applyJob(h.newVM(d))), taken.Volume)
	vm := h.newVM()
	vm.Spec.ISO = taken
	h.requireRefusal("insert another VM's disk into the drive", h.ApplyVM(h.ctx, h.applyJob(vm)), taken.Volume)
	h.wantPower(vm.ID, fleet.Absent)
}

func testISOMedia(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "good.iso", Kind: ISO, SizeBytes: 1 << 20})
	h.harness.AddImage(t, p, Image{Name: "linked.iso", Kind: LinkedISO, SizeBytes: 1 << 20})
	h.harness.AddImage(t, p, Image{Name: "dump.iso", Kind: Raw, SizeBytes: 1 << 20})
	vm := h.newVM()
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "good.iso"}
	h.apply(vm)
	for _, bad := range []string{"linked.iso", "dump.iso", "missing.iso"} {
		vm.Generation, vm.Spec.ISO = 2, &fleet.Volref{PoolID: p.ID, Volume: bad}
		h.requireRefusal("insert "+bad+" into the drive", h.ApplyVM(h.ctx, h.applyJob(vm)), bad)
		h.wantStatus(vm.ID, 1)
	}
}

// A pool's volumes report invalid images.
func testInvalidImages(t *testing.T, h *testHost) {
	p := h.newPool()
	says := map[string]string{"whole.qcow2": "", "whole.img": "", "whole.iso": "", "elsewhere.qcow2": "an external data file", "short.qcow2": "cut off"}
	for name, kind := range map[string]ImageKind{"whole.qcow2": Qcow2, "whole.img": Raw, "whole.iso": ISO, "elsewhere.qcow2": Qcow2Data, "short.qcow2": Qcow2Truncated} {
		h.harness.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
	}
	for name, want := range says {
		v, ok := h.reportedVolume(p, name)
		if !ok || want == "" && v.NotImageReason != "" || !strings.Contains(v.NotImageReason, want) {
			t.Errorf("the volume %s is %+v, want the NotImageReason %q", name, v, want)
		}
	}
}
