package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// A physical disk of the host belongs to at most one guest, and to none while the host itself uses the disk.
func testPhysicalDisks(t *testing.T, h *testHost) {
	device, use := h.harness.UnusedDisk(t)
	p := h.newPool()
	on := func(device string, disks ...fleet.Disk) fleet.VM {
		vm := h.newVM(disks...)
		vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: device}}
		return vm
	}
	release := use()
	h.requireRefusal("a disk that the host uses", h.ApplyVM(h.ctx, h.applyJob(on(device))), "The host itself uses "+device)
	release()
	h.requireRefusal("a missing disk", h.ApplyVM(h.ctx, h.applyJob(on("blk/none"))), "has no disk blk/none")

	vm := h.runningVM(newDisk(p))
	edit := func(devices ...fleet.VMHostDevice) error {
		vm.Generation++
		vm.Spec.HostDevices = devices
		return h.ApplyVM(h.ctx, h.applyJob(vm))
	}
	with := fleet.VMHostDevice{Device: device}
	release = use()
	h.requireRefusal("a disk that the host uses, for a running guest", edit(with), "The host itself uses "+device)
	release()
	for range 2 {
		h.apply(vm)
		h.wantNoPendingChanges(vm, "with a physical disk while running")
	}
	h.requireRefusal("a disk that another guest has", h.ApplyVM(h.ctx, h.applyJob(on(device))), "Another VM of the host uses "+device)
	h.requireRefusal("a snapshot", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "none"})), "Physical disks cannot have snapshots")

	h.requireNoError("remove the disk", edit())
	switch s := h.wantStatus(vm.ID, vm.Generation); {
	case len(s.PendingUnplug) == 0:
		h.wantNoPendingChanges(vm, "after the guest released the disk")
	case !slices.Equal(s.PendingUnplug, []fleet.PendingUnplug{{Field: "hostDevices", What: device}}) || !slices.Equal(s.NextBoot, []string{"hostDevices"}) || len(s.Drift) != 0:
		t.Errorf("after the disk's removal: pending unplug %+v, fields %q, drift %+v", s.PendingUnplug, s.NextBoot, s.Drift)
	default:
		h.requireRefusal("a disk that another guest still uses", h.ApplyVM(h.ctx, h.applyJob(on(device))), "Another VM of the host uses "+device)
	}
	h.requireNoError("add the disk again", edit(with))
	h.wantNoPendingChanges(vm, "with the disk again")
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.wantNoPendingChanges(vm, "stopped with the disk")

	release = use()
	h.requireRefusal("a start while the host uses the disk", h.StartVM(h.ctx, vm.ID), "The host itself uses "+device)
	h.wantPower(vm.ID, fleet.Stopped)
	release()
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); len(s.Disks) == 0 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != vm.Spec.Disks[0].Ref() {
		t.Errorf("the VM's first disk is not its volume; the disks are %+v", s.Disks)
	}
	h.wantNoPendingChanges(vm, "started with the disk")
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.requireNoError("remove the disk", edit())
	other := on(device)
	h.apply(other)
	h.requireNoError("delete", h.DeleteVM(h.ctx, other, h.pools, true))
}
