package conformance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// Hypervisors expand the CPU model in a running guest's definition. The expansion does not count as drift.
func testCPUModels(t *testing.T, h *testHost) {
	models := h.startableCPUModels()
	if len(models) < 4 {
		t.Fatalf("the host reports the CPU models %q", models)
	}
	vm := h.newVM()
	for i, model := range models {
		features := []string{"", "+aes -svm"}[(i+tier.Seed())%2]
		when := "model " + model + " " + features
		vm.Generation++
		vm.Spec.CPU = fleet.VMCPU{Model: model, Features: features}
		h.apply(vm)
		h.wantNoPendingChanges(vm, when+", off")
		h.requireNoError("start with "+when, h.StartVM(h.ctx, vm.ID))
		h.wantNoPendingChanges(vm, when+", started")
		h.wantPendingFields(&vm, when+", one more feature", func(s *fleet.VMSpec) { s.CPU.Features = "+aes -svm -x2apic" }, "cpu.features")
		if features != "" {
			h.wantPendingFields(&vm, when+", no features", func(s *fleet.VMSpec) { s.CPU.Features = "" }, "cpu.features")
		}
		h.wantPendingFields(&vm, when+", no model", func(s *fleet.VMSpec) { s.CPU.Model = "" }, "cpu.model")
		h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	}
}

// startableCPUModels are the host's CPU models without 486, which has no APIC and starts only on an old machine type.
func (h *testHost) startableCPUModels() []string {
	return slices.DeleteFunc(h.hostState().Host.Inventory.CPUModels, func(model string) bool { return model == "486" })
}

// wantPendingFields edits a running VM, requires that the fields wait for the VM's next start, and reverts the edit.
func (h *testHost) wantPendingFields(vm *fleet.VM, when string, edit func(*fleet.VMSpec), fields ...string) {
	h.t.Helper()
	before := vm.Spec
	edit(&vm.Spec)
	vm.Generation++
	h.apply(*vm)
	if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, fields) || len(s.Drift) != 0 {
		h.t.Errorf("%s: pending fields %q, want %q; drift %+v", when, s.NextBoot, fields, s.Drift)
	}
	vm.Spec = before
	vm.Generation++
	h.apply(*vm)
	h.wantNoPendingChanges(*vm, when+", reverted")
}

// randomSpecCount is the number of random specs that testStartedVMHasNoPendingChanges uses.
const randomSpecCount = 12

// A VM that was just started has no pending changes and no drift, whatever its spec.
func testStartedVMHasNoPendingChanges(t *testing.T, h *testHost) {
	seed := uint64(tier.Seed()) //nolint:gosec // The seed is not negative.
	t.Logf("repeat with %s=%d", tier.SeedVariable, seed)
	draw := rand.New(rand.NewPCG(seed, 29)) //nolint:gosec // not a secret
	models := h.startableCPUModels()
	p := h.newPool()
	for range randomSpecCount {
		vm := h.newVM(newDisk(p))
		usual, full := vm.Spec, specWithAllFields(vm.Spec)
		for _, f := range fleet.VMFields {
			if f.Input.Section != "" && draw.IntN(2) == 1 {
				f.Copy(&vm.Spec, full)
			}
		}
		if draw.IntN(2) == 1 {
			vm.Spec.CPU.Model = models[draw.IntN(len(models))]
		}
		if draw.IntN(2) == 1 {
			vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
		}
		var c fleet.Checks
		if vm.Spec.Check(&c, ""); c.Err() != nil { // the random values are inconsistent
			cpu := vm.Spec.CPU
			vm.Spec = usual
			vm.Spec.CPU.Model, vm.Spec.CPU.Features = cpu.Model, cpu.Features
		}
		h.apply(vm)
		h.wantNoPendingChanges(vm, "off")
		h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		h.wantNoPendingChanges(vm, "started")
		if t.Failed() {
			t.Fatalf("the spec is %+v", vm.Spec)
		}
		h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
		h.wantNoPendingChanges(vm, "stopped again")
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	}
}
