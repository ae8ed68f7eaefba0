package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// An old machine type has all four IDE drives and old devices. A running guest gets the devices that can be hot-plugged
// immediately, and the others at its next start.
func testOldMachineType(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "old.iso", Kind: ISO, SizeBytes: 1 << 20})
	first, second, third := newDisk(p), newDisk(p), newDisk(p)
	first.Bus, second.Bus, third.Bus, first.Serial = "ide", "ide", "sata", "OLD-1"
	vm := h.newVM(first, second, third)
	vm.Spec.Boot.Machine, vm.Spec.Display.Pointer, vm.Spec.Display.Sound, vm.Spec.Devices.Watchdog = fleet.MachinePC, "mouse", "ac97", "i6300esb"
	vm.Spec.ISO, vm.Spec.Drives = &fleet.Volref{PoolID: p.ID, Volume: "old.iso"}, []fleet.VMDrive{{Slot: "cdrom2"}, {Slot: "floppy1"}}
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC(), Model: "rtl8139"}, {Network: h.harness.ActiveNetwork, MAC: uniqueMAC(), Model: "e1000e"}}
	for range 2 { // a repeated job changes nothing
		h.apply(vm)
		h.wantNoPendingChanges(vm, "made")
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")
	edit := func(waits []string, change func(*fleet.VMSpec)) {
		t.Helper()
		vm.Generation++
		vm.Spec.Disks, vm.Spec.NICs = slices.Clone(vm.Spec.Disks), slices.Clone(vm.Spec.NICs)
		change(&vm.Spec)
		h.apply(vm)
		if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, waits) || len(s.Drift) != 0 {
			t.Errorf("generation %d: pending fields %q, want %q; drift %+v", vm.Generation, s.NextBoot, waits, s.Drift)
		}
	}
	edit(nil, func(s *fleet.VMSpec) { s.ISO = nil })
	edit(nil, func(s *fleet.VMSpec) { s.Disks = append(s.Disks, newDisk(p)) })
	edit(nil, func(s *fleet.VMSpec) {
		s.NICs = append(s.NICs, fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()})
	})
	edit([]string{"disks"}, func(s *fleet.VMSpec) { s.Disks[1].Bus = "sata" })
	edit(nil, func(s *fleet.VMSpec) { s.Disks[1].Bus = "ide" })
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started again")
}
