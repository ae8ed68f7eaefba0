package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// testNICNeedsDevice connects two VMs to a network whose device serves one NIC. Both VMs are defined, but only one can
// run at a time.
func testNICNeedsDevice(t *testing.T, h *host) {
	n := h.network(fleet.NetworkIsolated)
	n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Direct: fleet.DirectPassthrough, Device: h.h.Device(t)}
	h.must("apply", h.ApplyNetwork(h.ctx, n))
	if st := h.wantNet(n, true, ""); st.Forward != "passthrough" {
		t.Errorf("the network is %+v", st)
	}
	first, second := h.newVMOnNetwork(n), h.newVMOnNetwork(n)
	h.must("start the first", h.StartVM(h.ctx, first.ID))
	h.refused("start the second", h.StartVM(h.ctx, second.ID), "This host has no free device for a NIC on the network "+n.Name)
	h.must("stop the first", h.StopVM(h.ctx, first.ID))
	h.must("start the second", h.StartVM(h.ctx, second.ID))
	h.refused("start the first again", h.StartVM(h.ctx, first.ID), "no free device")
	h.must("stop the second", h.StopVM(h.ctx, second.ID))
	for _, vm := range []fleet.VM{first, second} {
		h.must("delete", h.DeleteVM(h.ctx, vm, nil, false))
	}
	h.must("release", h.ReleaseNetwork(h.ctx, n))
}
