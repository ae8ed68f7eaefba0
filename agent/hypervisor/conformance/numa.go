package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A guest has the requested NUMA nodes on the host's nodes. A running guest's node gets more memory if possible; other
// changes wait for the next start.
func testNUMANodes(t *testing.T, h *testHost) {
	vm := h.newVM()
	vm.Spec.CPUs, vm.Spec.MemoryMiB, vm.Spec.CPU.Max, vm.Spec.Memory.MaxMiB = 2, 256, 4, 1024
	vm.Spec.NUMA = []fleet.VMNUMANode{{CPUs: "0,2", MemoryMiB: 128, Nodes: "0"}, {CPUs: "1,3", MemoryMiB: 128}}
	h.apply(vm)
	h.wantNoPendingChanges(vm, "created with NUMA nodes")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")
	edit := func(memory int, waits []string, change func(*fleet.VMSpec)) {
		t.Helper()
		vm.Generation++
		vm.Spec.NUMA = slices.Clone(vm.Spec.NUMA)
		change(&vm.Spec)
		for range 2 {
			h.apply(vm)
			if s := h.wantStatus(vm.ID, vm.Generation); s.MemoryMiB != memory || !slices.Equal(s.NextBoot, waits) || len(s.Drift) != 0 {
				t.Errorf("generation %d: %d MiB, pending fields %q, drift %+v; want %d MiB, pending fields %q", vm.Generation, s.MemoryMiB, s.NextBoot, s.Drift, memory, waits)
			}
		}
	}
	edit(384, nil, func(s *fleet.VMSpec) { s.MemoryMiB, s.NUMA[1].MemoryMiB = 384, 256 })
	edit(640, nil, func(s *fleet.VMSpec) { s.MemoryMiB, s.NUMA[0].MemoryMiB, s.NUMA[1].MemoryMiB = 640, 256, 384 })
	edit(640, []string{"memoryMiB", "numa"}, func(s *fleet.VMSpec) { s.MemoryMiB, s.NUMA[0].MemoryMiB, s.NUMA[1].MemoryMiB = 768, 128, 640 })
	edit(640, nil, func(s *fleet.VMSpec) { s.MemoryMiB, s.NUMA[0].MemoryMiB, s.NUMA[1].MemoryMiB = 640, 256, 384 })
	edit(640, []string{"numa"}, func(s *fleet.VMSpec) { s.NUMA[0].CPUs, s.NUMA[1].CPUs = "0-1", "2-3" })
	edit(640, []string{"numa"}, func(s *fleet.VMSpec) { s.NUMA[0].CPUs, s.NUMA[1].CPUs, s.NUMA[1].Nodes = "0,2", "1,3", "0" })
	edit(640, []string{"numa"}, func(s *fleet.VMSpec) { s.NUMA[0], s.NUMA[1] = s.NUMA[1], s.NUMA[0] })
	edit(640, []string{"numa"}, func(s *fleet.VMSpec) { s.NUMA = nil })
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started without NUMA nodes")
	edit(768, nil, func(s *fleet.VMSpec) { s.MemoryMiB = 768 })
}

// A guest does not start if it has an empty USB port of the host, or a mediated device type that is unavailable. The
// error says why. The guest starts once the device is removed from its spec.
func testMissingHostDevice(t *testing.T, h *testHost) {
	vm := h.newVM()
	for device, why := range map[string]string{"usb-port/99-9.9": "has no device that a guest could use", "mdev/quantix-none": "cannot create another mediated device of the type quantix-none"} {
		vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: device}}
		vm.Generation++
		h.apply(vm)
		h.wantNoPendingChanges(vm, "with "+device)
		refused, ok := errors.AsType[*fleet.Error](h.StartVM(h.ctx, vm.ID))
		if !ok || refused.Code != fleet.Conflict || !strings.Contains(refused.Message, why) {
			t.Errorf("start without the host device %s: the error is %v, want a conflict", device, refused)
		}
		h.wantPower(vm.ID, fleet.Stopped)
		h.wantNoPendingChanges(vm, "not started with "+device)
	}
	vm.Generation++
	vm.Spec.HostDevices = nil
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
}

// A host that reports support for encrypted guest memory starts such a guest and reports the guest's measurement. It
// refuses snapshots with memory. Other hosts refuse such a VM.
func testMemoryEncryption(t *testing.T, h *testHost) {
	state, err := h.HostState(h.ctx, hypervisor.Assignment{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range fleet.ConfidentialKinds[1:] {
		vm := h.newVM()
		vm.Spec.Firmware, vm.Spec.Security.Confidential = fleet.UEFI, kind.Value
		if slices.ContainsFunc(state.Host.Inventory.VMGaps, func(g fleet.VMGap) bool {
			return g.Field == "security.confidential" && g.Value == kind.Value && g.Why != ""
		}) {
			continue // the portal does not send the VM to such a host
		}
		h.apply(vm)
		h.wantNoPendingChanges(vm, "created with "+kind.Value)
		if s := h.wantStatus(vm.ID, vm.Generation); s.Launch != nil {
			t.Errorf("%s: the VM has a launch measurement before its first start: %+v", kind.Value, s.Launch)
		}
		h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		if s := h.wantPower(vm.ID, fleet.Running); s.Launch == nil || s.Launch.Kind != kind.Value || s.Launch.Policy == 0 && kind.Value != "tdx" {
			t.Errorf("%s: the launch measurement is %+v, want one of this kind", kind.Value, s.Launch)
		}
		h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	}
}
