package conformance

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (h *host) wantMark(when string, id fleet.VMID, mark string) {
	h.t.Helper()
	if r, ok := h.report(id); !ok || r.Proof != wire.Proof(id, mark) {
		h.t.Fatalf("%s the VM shows the proof %q, want that of %q", when, r.Proof, mark)
	}
}

func testMark(t *testing.T, h *host) {
	const first, second, third = "00112233445566778899aabbccddeeff", "10112233445566778899aabbccddeeff", "20112233445566778899aabbccddeeff"
	vm := h.definedVM()
	h.wantMark("without a mark", vm.ID, "")
	h.must("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Mark = first })))
	h.wantMark("after a job with a mark", vm.ID, first)
	restore := h.h.SaveDefinition(t, vm.ID)
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	h.wantMark("after a job without a mark", vm.ID, first)
	h.must("mark", h.MarkVM(h.ctx, vm.ID, second))
	h.wantMark("marked while off", vm.ID, second)
	if s := h.status(vm.ID, 2); s.Power != fleet.Stopped || s.CPUs != 2 || len(s.Drift) != 0 {
		t.Errorf("marked while off: %+v", s)
	}
	restore()
	h.wantMark("defined from an old copy", vm.ID, first)

	vm.Generation = 3
	h.apply(vm)
	h.must("start", h.StartVM(h.ctx, vm.ID))
	h.wantMark("started", vm.ID, first)
	before := h.wantPower(vm.ID, fleet.Running)
	for range 2 {
		h.must("mark", h.MarkVM(h.ctx, vm.ID, third))
	}
	h.wantMark("marked while running", vm.ID, third)
	after := h.status(vm.ID, 3)
	if after.Power != fleet.Running || !after.StartedAt.Equal(*before.StartedAt) || len(after.NextBoot) != len(before.NextBoot) || len(after.Drift) != len(before.Drift) {
		t.Errorf("MarkVM changed more than the mark: %+v, before %+v", after, before)
	}
	h.must("stop", h.StopVM(h.ctx, vm.ID))
	h.wantMark("off again", vm.ID, third)

	h.must("start", h.StartVM(h.ctx, vm.ID))
	h.h.Undefine(t, vm.ID)
	h.eventually("the definition is removed", func() bool { _, ok := h.faultOf(vm.ID, fleet.FaultUndefined); return ok })
	h.wantMark("without a definition", vm.ID, third)
	h.must("mark", h.MarkVM(h.ctx, vm.ID, second))
	h.wantMark("marked without a definition", vm.ID, second)

	if err := h.MarkVM(h.ctx, fleet.NewID[fleet.VMID](), first); err == nil {
		t.Error("a missing VM is marked")
	}
	h.refused("mark an unmanaged domain", h.MarkVM(h.ctx, h.h.Foreign(t, name("foreign")), first), "not created by Quantix")
}
