package conformance

import (
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// withReservations returns the network's next generation with these DHCP reservations, each "MAC address name".
func withReservations(n fleet.Network, all ...string) fleet.Network {
	spec, v4, dhcp := *n.Spec, *n.Spec.IPv4, *n.Spec.IPv4.DHCP
	dhcp.Leases = nil
	for _, text := range all {
		words := append(strings.Fields(text), "")
		dhcp.Leases = append(dhcp.Leases, fleet.StaticLease{MAC: words[0], IP: words[1], Name: words[2]})
	}
	v4.DHCP, spec.IPv4, n.Spec = &dhcp, &v4, &spec
	n.Generation++
	return n
}

func (h *testHost) wantReservations(n fleet.Network, want ...string) {
	h.t.Helper()
	h.waitNetwork(n, true, "")
	got := h.harness.Reservations(h.t, n.Name)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.t.Errorf("the network's dnsmasq has the reservations %q, want %q", got, want)
	}
}

// Reservations change while guests stay connected to the network.
func testReservations(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkNAT)
	at := strings.TrimSuffix(n.Spec.IPv4.Prefix().Addr().String(), "0")
	h.wantReservations(n, "52:54:00:00:00:09 "+at+"9")
	vm := h.newVMOnNetwork(n)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))

	n = withReservations(n, "52:54:00:00:00:09 "+at+"9 nine", "52:54:00:00:00:0a "+at+"10", "52:54:00:00:00:0b "+at+"120 eleven")
	for range 2 {
		h.requireNoError("reserve two more", h.ApplyNetwork(h.ctx, n))
		h.wantReservations(n, "52:54:00:00:00:09 "+at+"9", "52:54:00:00:00:0a "+at+"10", "52:54:00:00:00:0b "+at+"120")
	}
	n = withReservations(n, "52:54:00:00:00:0a "+at+"9", "52:54:00:00:00:09 "+at+"10 nine")
	h.requireNoError("exchange two addresses and remove one reservation", h.ApplyNetwork(h.ctx, n))
	h.wantReservations(n, "52:54:00:00:00:09 "+at+"10", "52:54:00:00:00:0a "+at+"9")
	n = withReservations(n)
	h.requireNoError("remove all reservations", h.ApplyNetwork(h.ctx, n))
	h.wantReservations(n)
	if p := h.harness.PowerOf(t, vm.ID); p != fleet.Running {
		t.Errorf("the guest on the network has the power state %s, want it running", p)
	}
	h.harness.StopNetwork(t, n.Name)
	n = withReservations(n, "52:54:00:00:00:0c "+at+"12")
	h.requireNoError("reserve while the network is stopped", h.ApplyNetwork(h.ctx, n))
	h.wantReservations(n, "52:54:00:00:00:0c "+at+"12")
}

// A reservation removed from the running network but not from its definition is reported, and the next apply restores
// it.
func testReservationsDropped(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.DropReservations(t, n.Name)
	h.waitNetwork(n, true, hypervisor.NetworkOutdatedText)
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	h.wantReservations(n, "52:54:00:00:00:09 "+strings.TrimSuffix(n.Spec.IPv4.Prefix().Addr().String(), "0")+"9")
}
