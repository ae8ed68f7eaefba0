package conformance

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func testVolumeUsers(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	h.h.AddImage(t, p, Image{Name: "tools.iso", Kind: ISO, SizeBytes: 1 << 20})
	vm := h.newVM(disk(p))
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)
	for volume, want := range map[string][]fleet.VMID{vm.Spec.Disks[0].Volume: {vm.ID}, "golden.qcow2": nil, "tools.iso": nil} {
		if v, ok := h.volume(p, volume); !ok || !slices.Equal(v.UsedBy, want) {
			t.Errorf("%s is used by %q, want %q", volume, v.UsedBy, want)
		}
	}
	h.must("delete without its disks", h.DeleteVM(h.ctx, vm, h.pools, false))
	if v, ok := h.volume(p, vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) != 0 {
		t.Errorf("after the VM's deletion, its disk is %+v", v)
	}
	h.apply(vm) // so that the test's cleanup deletes its disk
}

func testDiskIsNoImage(t *testing.T, h *host) {
	p := h.pool()
	owner := h.definedVM(disk(p))
	taken := &fleet.Volref{PoolID: p.ID, Volume: owner.Spec.Disks[0].Volume}
	d := disk(p)
	d.Image = taken
	h.refused("clone another VM's disk", h.ApplyVM(h.ctx, h.applyJob(h.newVM(d))), taken.Volume)
	vm := h.newVM()
	vm.Spec.ISO = taken
	h.refused("insert another VM's disk into the drive", h.ApplyVM(h.ctx, h.applyJob(vm)), taken.Volume)
	h.wantPower(vm.ID, fleet.Absent)
}

func testISOs(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "good.iso", Kind: ISO, SizeBytes: 1 << 20})
	h.h.AddImage(t, p, Image{Name: "linked.iso", Kind: LinkedISO, SizeBytes: 1 << 20})
	h.h.AddImage(t, p, Image{Name: "dump.iso", Kind: Raw, SizeBytes: 1 << 20})
	vm := h.newVM()
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "good.iso"}
	h.apply(vm)
	for _, bad := range []string{"linked.iso", "dump.iso", "missing.iso"} {
		vm.Generation, vm.Spec.ISO = 2, &fleet.Volref{PoolID: p.ID, Volume: bad}
		h.refused("insert "+bad+" into the drive", h.ApplyVM(h.ctx, h.applyJob(vm)), bad)
		h.status(vm.ID, 1)
	}
}

// A pool's volumes report invalid images.
func testUnsoundImages(t *testing.T, h *host) {
	p := h.pool()
	says := map[string]string{"whole.qcow2": "", "whole.img": "", "whole.iso": "", "elsewhere.qcow2": "an external data file", "short.qcow2": "cut off"}
	for name, kind := range map[string]ImageKind{"whole.qcow2": Qcow2, "whole.img": Raw, "whole.iso": ISO, "elsewhere.qcow2": Qcow2Data, "short.qcow2": Qcow2Short} {
		h.h.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
	}
	for name, want := range says {
		v, ok := h.volume(p, name)
		if !ok || want == "" && v.NotImageReason != "" || !strings.Contains(v.NotImageReason, want) {
			t.Errorf("%s is %+v, want one that reports %q", name, v, want)
		}
	}
}
