package conformance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// Hypervisors expand the CPU model in a running guest's definition. The expansion does not count as drift.
func testCPUModels(t *testing.T, h *host) {
	models := h.snapshot().Host.Inventory.CPUModels
	if len(models) < 4 {
		t.Fatalf("the host reports the CPU models %q", models)
	}
	vm := h.newVM()
	for i, model := range models {
		if model == "486" { // this model has no APIC and starts only on an old machine type
			continue
		}
		features := []string{"", "+aes -svm"}[(i+tier.Seed())%2]
		when := "model " + model + " " + features
		vm.Generation++
		vm.Spec.CPU = fleet.VMCPU{Model: model, Features: features}
		h.apply(vm)
		h.wantSettled(vm, when+", off")
		h.must("start with "+when, h.StartVM(h.ctx, vm.ID))
		h.wantSettled(vm, when+", started")
		h.wantPending(&vm, when+", one more feature", func(s *fleet.VMSpec) { s.CPU.Features = "+aes -svm -x2apic" }, "cpu.features")
		if features != "" {
			h.wantPending(&vm, when+", no features", func(s *fleet.VMSpec) { s.CPU.Features = "" }, "cpu.features")
		}
		h.wantPending(&vm, when+", no model", func(s *fleet.VMSpec) { s.CPU.Model = "" }, "cpu.model")
		h.must("stop", h.StopVM(h.ctx, vm.ID))
	}
}

// wantPending edits a running VM, requires that the fields wait for the VM's next start, and reverts the edit.
func (h *host) wantPending(vm *fleet.VM, when string, edit func(*fleet.VMSpec), fields ...string) {
	h.t.Helper()
	before := vm.Spec
	edit(&vm.Spec)
	vm.Generation++
	h.apply(*vm)
	if s := h.status(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, fields) || len(s.Drift) != 0 {
		h.t.Errorf("%s: next boot %q, want %q; drift %+v", when, s.NextBoot, fields, s.Drift)
	}
	vm.Spec = before
	vm.Generation++
	h.apply(*vm)
	h.wantSettled(*vm, when+", reverted")
}

// drawnSpecs is the number of random specs that testSettled uses.
const drawnSpecs = 12

// A VM that was just started has no pending changes and no drift, whatever its spec.
func testSettled(t *testing.T, h *host) {
	seed := uint64(tier.Seed()) //nolint:gosec // The seed is not negative.
	t.Logf("repeat with %s=%d", tier.SeedVariable, seed)
	draw := rand.New(rand.NewPCG(seed, 29)) //nolint:gosec // not a secret
	models := h.snapshot().Host.Inventory.CPUModels
	p := h.pool()
	for range drawnSpecs {
		vm := h.newVM(disk(p))
		usual, full := vm.Spec, fullSpec(vm.Spec)
		for _, f := range fleet.VMFields {
			if f.Input.Section != "" && draw.IntN(2) == 1 {
				f.Copy(&vm.Spec, full)
			}
		}
		if draw.IntN(2) == 1 {
			vm.Spec.CPU.Model = models[draw.IntN(len(models))]
		}
		if draw.IntN(2) == 1 {
			vm.Spec.NICs = []fleet.NIC{{Network: h.h.Network, MAC: mac()}}
		}
		var c fleet.Checks
		if vm.Spec.Check(&c, ""); c.Err() != nil { // the random values are inconsistent
			cpu := vm.Spec.CPU
			vm.Spec = usual
			vm.Spec.CPU.Model, vm.Spec.CPU.Features = cpu.Model, cpu.Features
		}
		h.apply(vm)
		h.wantSettled(vm, "off")
		h.must("start", h.StartVM(h.ctx, vm.ID))
		h.wantSettled(vm, "started")
		if t.Failed() {
			t.Fatalf("the spec is %+v", vm.Spec)
		}
		h.must("stop", h.StopVM(h.ctx, vm.ID))
		h.wantSettled(vm, "stopped again")
		h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	}
}
