package hvtest

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// A whole disk of the host is one guest's, and nobody's while the host uses it itself.
func testPhysicalDisks(t *testing.T, h *host) {
	device, use := h.h.Physical(t)
	p := h.pool()
	on := func(device string, disks ...fleet.Disk) fleet.VM {
		vm := h.vm(disks...)
		vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: device}}
		return vm
	}
	release := use()
	h.refused("a disk that the host uses", h.ApplyVM(h.ctx, h.order(on(device))), "The host uses "+device+" itself")
	release()
	h.refused("a disk that is not there", h.ApplyVM(h.ctx, h.order(on("blk/none"))), "has no disk blk/none")

	vm := on(device, disk(p))
	h.apply(vm)
	h.apply(vm)
	h.wantSettled(vm, "made with a disk of the host")
	h.refused("a disk that another guest has", h.ApplyVM(h.ctx, h.order(on(device))), "Another VM of the host has "+device)
	release = use()
	h.refused("a start while the host uses it", h.StartVM(h.ctx, vm.ID), "The host uses "+device+" itself")
	h.wantPower(vm.ID, fleet.Stopped)
	release()
	h.must("start", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); len(s.Disks) == 0 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != vm.Spec.Disks[0].Ref() {
		t.Errorf("the VM's own disk is not its first: %+v", s.Disks)
	}
	h.wantSettled(vm, "started")
	h.refused("a snapshot", h.TakeSnapshot(h.ctx, h.snap(vm, fleet.SnapshotOrder{ID: fleet.NewID[fleet.SnapshotID](), Name: "none"})), "of which there are no snapshots")

	with := vm.Spec.HostDevices
	for _, step := range []struct {
		devices []fleet.VMHostDevice
		waits   []string
	}{{nil, []string{"hostDevices"}}, {with, nil}, {nil, []string{"hostDevices"}}} {
		vm.Generation++
		vm.Spec.HostDevices = step.devices
		h.apply(vm)
		if s := h.status(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, step.waits) || len(s.Drift) != 0 {
			t.Errorf("with %v: next boot %q, want %q; drift %+v", step.devices, s.NextBoot, step.waits, s.Drift)
		}
	}
	h.refused("a disk that a guest still runs with", h.ApplyVM(h.ctx, h.order(on(device))), "Another VM of the host has "+device)
	h.must("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	other := on(device)
	h.apply(other)
	h.must("delete", h.DeleteVM(h.ctx, other, h.pools, true))
}
