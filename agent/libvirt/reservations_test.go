//go:build linux && ordeal

package libvirt_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// The guest's DHCP client gets the address that is reserved on the running network. The host reports the address from
// the guest agent and from the lease, and the network lists the lease.
func TestGuestGetsReservedAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := newTestNetwork(t, f)
	f.requireNoError(f.ApplyNetwork(t.Context(), n))
	server := dnsmasqPID(t, n.Name)
	const mac = "52:54:00:0d:00:01"
	ip := strings.TrimSuffix(n.Spec.IPv4.Prefix().Addr().String(), "0") + "42"
	spec, v4, dhcp := *n.Spec, *n.Spec.IPv4, *n.Spec.IPv4.DHCP
	dhcp.Leases = []fleet.StaticLease{{MAC: mac, IP: ip, Name: "web"}}
	v4.DHCP, spec.IPv4, n.Spec = &dhcp, &v4, &spec
	n.Generation = 2
	f.requireNoError(f.ApplyNetwork(t.Context(), n))
	if again := dnsmasqPID(t, n.Name); again != server {
		t.Errorf("dnsmasq was restarted: process %d, before %d", again, server)
	}

	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	vm := f.newVM()
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
	vm.Spec.NICs = []fleet.NIC{{Network: n.Name, MAC: mac}}
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	var nic fleet.NICState
	var leases []fleet.DHCPLease
	waitFor(t, "the guest's addresses are reported by agent and lease", func() bool {
		state, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Networks: []fleet.Network{n}}})
		f.requireNoError(err)
		for _, v := range state.VMs {
			if v.ID == vm.ID && len(v.Status.NICs) == 1 {
				nic = v.Status.NICs[0]
			}
		}
		for _, r := range state.Networks {
			if r.ID == n.ID {
				leases = r.Status.Leases
			}
		}
		i := slices.IndexFunc(nic.Seen, func(a fleet.SeenAddress) bool { return a.IP == ip })
		return i >= 0 && slices.Contains(nic.Seen[i].By, fleet.FromAgent) && slices.Contains(nic.Seen[i].By, fleet.FromLease)
	})
	if len(nic.Addresses) != 1 || nic.Addresses[0] != ip {
		t.Errorf("the NIC has %+v, want only %s", nic, ip)
	}
	if len(leases) != 1 || leases[0].MAC != mac || leases[0].IP != ip {
		t.Errorf("the network's leases are %+v", leases)
	}
}
