package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// withPortGroups returns the network's next generation with these port groups.
func withPortGroups(n fleet.Network, all ...fleet.PortGroup) fleet.Network {
	spec := *n.Spec
	spec.PortGroups, n.Spec = all, &spec
	n.Generation++
	return n
}

func (h *testHost) wantPortGroups(n fleet.Network, want ...string) {
	h.t.Helper()
	h.waitNetwork(n, true, "")
	got := h.harness.PortGroups(h.t, n.Name)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.t.Errorf("the running network has the port groups %q, want %q", got, want)
	}
}

func testPortGroups(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	n = withPortGroups(n, fleet.PortGroup{Name: "voice"}, fleet.PortGroup{Name: "backup", ToGuest: &fleet.Rate{AverageKiB: 1024, PeakKiB: 2048, BurstKiB: 512}})
	for range 2 {
		h.requireNoError("apply port groups", h.ApplyNetwork(h.ctx, n))
		h.wantPortGroups(n, "backup", "voice")
	}
	vm := h.newVM()
	vm.Spec.NICs = []fleet.NIC{{NetworkID: n.ID, Network: n.Name, PortGroup: "voice", MAC: uniqueMAC()}}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	st := h.wantStatus(vm.ID, vm.Generation)
	if len(st.NICs) != 1 || st.NICs[0].Source != "network "+n.Name+", port group voice" || len(st.Drift) != 0 || len(st.NextBoot) != 0 {
		t.Errorf("the VM's status is %+v, want its NIC on the port group voice", st)
	}
	h.requireRefusal("release", h.ReleaseNetwork(h.ctx, n), vm.Name)
	// A change of a NIC's port group takes effect at the guest's next start, like a change of the NIC's network.
	vm.Generation++
	vm.Spec.NICs = slices.Clone(vm.Spec.NICs)
	vm.Spec.NICs[0].PortGroup = ""
	h.apply(vm)
	if st := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(st.NextBoot, []string{"nics"}) {
		t.Errorf("after the NIC left its port group, the pending fields are %q, want nics", st.NextBoot)
	}
	n = withPortGroups(n, fleet.PortGroup{Name: "voice", Description: "phones"}, fleet.PortGroup{Name: "guests"})
	h.requireNoError("change port groups while a guest uses one", h.ApplyNetwork(h.ctx, n))
	h.wantPortGroups(n, "guests", "voice")
	n = withPortGroups(n)
	h.requireNoError("remove all port groups", h.ApplyNetwork(h.ctx, n))
	h.wantPortGroups(n)
}
