package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// testNICNeedsDevice connects two VMs to a network whose device serves one NIC. Both VMs are defined, but only one can
// run at a time.
func testNICNeedsDevice(t *testing.T, h *testHost) {
	n := h.newNetwork(fleet.NetworkIsolated)
	n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Direct: fleet.DirectPassthrough, Device: h.harness.UnusedNetworkDevice(t)}
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	if st := h.waitNetwork(n, true, ""); st.Forward != "passthrough" {
		t.Errorf("the network's status is %+v, want the forward mode passthrough", st)
	}
	first, second := h.newVMOnNetwork(n), h.newVMOnNetwork(n)
	h.requireNoError("start the first", h.StartVM(h.ctx, first.ID))
	h.requireRefusal("start the second", h.StartVM(h.ctx, second.ID), "This host has no free device for a NIC on the network "+n.Name)
	h.requireNoError("stop the first", h.StopVM(h.ctx, first.ID))
	h.requireNoError("start the second", h.StartVM(h.ctx, second.ID))
	h.requireRefusal("start the first again", h.StartVM(h.ctx, first.ID), "no free device")
	h.requireNoError("stop the second", h.StopVM(h.ctx, second.ID))
	for _, vm := range []fleet.VM{first, second} {
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, false))
	}
	h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
}
