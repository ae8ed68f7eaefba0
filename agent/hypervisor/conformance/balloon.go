package conformance

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Running guests with a memory minimum are listed, and resized without a change of their definition. Other guests are
// not listed.
func testBalloons(t *testing.T, h *testHost) {
	vm, other, off := h.newVM(), h.newVM(), h.newVM()
	vm.Spec.MemoryMiB, vm.Spec.Memory = 512, fleet.VMMemory{BalloonMiB: 384, MinMiB: 160}
	off.Spec.MemoryMiB, off.Spec.Memory = 512, fleet.VMMemory{MinMiB: 256}
	for _, v := range []fleet.VM{vm, other, off} {
		h.apply(v)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.requireNoError("start", h.StartVM(h.ctx, other.ID))
	tells := func(when string, want hypervisor.BalloonGuest) {
		t.Helper()
		all, err := h.Balloons(h.ctx)
		h.requireNoError("read balloons", err)
		for _, id := range []fleet.VMID{other.ID, off.ID} {
			if b, ok := find(all, func(b hypervisor.BalloonGuest) bool { return b.ID == id }); ok {
				t.Errorf("%s: Balloons lists a guest that is off or has no memory minimum: %+v", when, b)
			}
		}
		b, ok := find(all, func(b hypervisor.BalloonGuest) bool { return b.ID == vm.ID })
		if b.CurrentMiB = 0; ok != (want.ID != "") || b != want {
			t.Errorf("%s: the guest is listed: %t, with the balloon %+v, want %+v", when, ok, b, want)
		}
		h.wantNoPendingChanges(vm, when)
	}
	tells("started", hypervisor.BalloonGuest{ID: vm.ID, MinMiB: 160, MaxMiB: 384})
	h.requireNoError("set a balloon size", h.SetBalloon(h.ctx, vm.ID, 200))
	h.requireNoError("set less than the memory minimum", h.SetBalloon(h.ctx, vm.ID, 128))
	h.requireNoError("set the balloon of a guest without a memory minimum", h.SetBalloon(h.ctx, other.ID, 100))
	h.requireNoError("set the balloon of a stopped guest", h.SetBalloon(h.ctx, off.ID, 256))
	tells("asked", hypervisor.BalloonGuest{ID: vm.ID, MinMiB: 160, MaxMiB: 384})
	edit := func(change func(*fleet.VMMemory)) {
		change(&vm.Spec.Memory)
		vm.Generation++
		h.apply(vm)
	}
	edit(func(m *fleet.VMMemory) { m.BalloonMiB, m.MinMiB = 0, 256 })
	tells("edited", hypervisor.BalloonGuest{ID: vm.ID, MinMiB: 256, MaxMiB: 512})
	h.requireNoError("pause", h.PauseVM(h.ctx, vm.ID))
	tells("paused", hypervisor.BalloonGuest{})
	h.requireNoError("resume", h.ResumeVM(h.ctx, vm.ID))
	edit(func(m *fleet.VMMemory) { m.MinMiB = 0 })
	tells("without a memory minimum", hypervisor.BalloonGuest{})
}
