package conformance

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (h *testHost) wantOwnershipMark(when string, id fleet.VMID, mark string) {
	h.t.Helper()
	if r, ok := h.reportedVM(id); !ok || r.Proof != wire.OwnershipProof(id, mark) {
		h.t.Fatalf("%s the VM shows the proof %q, want that of %q", when, r.Proof, mark)
	}
}

func testOwnershipMarkStored(t *testing.T, h *testHost) {
	const first, second, third = "00112233445566778899aabbccddeeff", "10112233445566778899aabbccddeeff", "20112233445566778899aabbccddeeff"
	vm := h.definedVM()
	h.wantOwnershipMark("without a mark", vm.ID, "")
	h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.OwnershipMark = first })))
	h.wantOwnershipMark("after a job with a mark", vm.ID, first)
	restore := h.harness.SaveDefinition(t, vm.ID)
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	h.wantOwnershipMark("after a job without a mark", vm.ID, first)
	h.requireNoError("mark", h.SetOwnershipMark(h.ctx, vm.ID, second))
	h.wantOwnershipMark("marked while off", vm.ID, second)
	if s := h.wantStatus(vm.ID, 2); s.Power != fleet.Stopped || s.CPUs != 2 || len(s.Drift) != 0 {
		t.Errorf("after a mark of the stopped VM, its status is %+v, want 2 vCPUs and no drift", s)
	}
	restore()
	h.wantOwnershipMark("defined from an old copy", vm.ID, first)

	vm.Generation = 3
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantOwnershipMark("started", vm.ID, first)
	before := h.wantPower(vm.ID, fleet.Running)
	for range 2 {
		h.requireNoError("mark", h.SetOwnershipMark(h.ctx, vm.ID, third))
	}
	h.wantOwnershipMark("marked while running", vm.ID, third)
	after := h.wantStatus(vm.ID, 3)
	if after.Power != fleet.Running || !after.StartedAt.Equal(*before.StartedAt) || len(after.NextBoot) != len(before.NextBoot) || len(after.Drift) != len(before.Drift) {
		t.Errorf("SetOwnershipMark changed the VM's status to %+v, before %+v", after, before)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantOwnershipMark("off again", vm.ID, third)

	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.harness.UndefineVM(t, vm.ID)
	h.waitUntil("the definition is removed", func() bool { _, ok := h.findFault(vm.ID, fleet.FaultUndefined); return ok })
	h.wantOwnershipMark("without a definition", vm.ID, third)
	h.requireNoError("mark", h.SetOwnershipMark(h.ctx, vm.ID, second))
	h.wantOwnershipMark("marked without a definition", vm.ID, second)

	if err := h.SetOwnershipMark(h.ctx, fleet.NewID[fleet.VMID](), first); err == nil {
		t.Error("a missing VM is marked")
	}
	h.requireRefusal("mark an unmanaged domain", h.SetOwnershipMark(h.ctx, h.harness.DefineUnmanagedVM(t, uniqueName("foreign")), first), "not created by Quantix")
}
