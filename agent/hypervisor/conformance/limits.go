package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// RunNICLimits checks that a host reports correctly whether it supports NIC limits. It returns true if the host reports
// that it does not support them.
func RunNICLimits(t *testing.T, h Harness) (gap bool) { return checkNICLimits(openTestHost(t, h)) }

func testNICLimits(_ *testing.T, h *testHost) { checkNICLimits(h) }

// checkNICLimits checks the host's reported gap in NIC limits. If the host reports a gap, a guest with limits does not
// start and a running guest cannot get limits. Otherwise the start and the change succeed.
func checkNICLimits(h *testHost) (gap bool) {
	told := h.hostState().Host.Inventory.VMGaps
	tells := func(field string) bool {
		return slices.ContainsFunc(told, func(g fleet.VMGap) bool { return g.Field == field && g.Why != "" })
	}
	if gap = tells(fleet.NICLimitIn); tells(fleet.NICLimitOut) != gap {
		h.t.Fatalf("only one direction is reported as a gap: %+v", told)
	}
	check := func(act string, err error) {
		h.t.Helper()
		if gap {
			h.requireRefusal(act, err, "tc")
		} else {
			h.requireNoError(act, err)
		}
	}
	card := fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}
	limited := card
	limited.Limits = fleet.NICLimits{InKiB: 1000, OutKiB: 500}
	vm := h.newVM()
	vm.Spec.NICs = []fleet.NIC{limited}
	h.apply(vm)
	check("start with limits", h.StartVM(h.ctx, vm.ID))
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	vm.Generation++
	vm.Spec.NICs = []fleet.NIC{card}
	h.apply(vm)
	h.requireNoError("start without limits", h.StartVM(h.ctx, vm.ID))
	vm.Generation++
	vm.Spec.NICs = []fleet.NIC{limited}
	check("limit the running guest", h.ApplyVM(h.ctx, h.applyJob(vm)))
	h.wantPower(vm.ID, fleet.Running)
	return gap
}
