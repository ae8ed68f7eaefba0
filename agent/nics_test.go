package agent_test

import (
	"testing"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// slowDevices is a host whose kernel answers about its devices with a delay.
type slowDevices struct {
	*mock.Host
	releaseRead chan struct{}
}

func (s *slowDevices) NICs() []fleet.HostNIC {
	<-s.releaseRead
	return s.Host.NICs()
}

// Each report contains the current devices of the host; a busy kernel delays no report.
func TestNetworkDevicesAreReadForEachReport(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &slowDevices{mock.New(mock.Options{Name: "host-1"}), make(chan struct{})}
	p.startAgent(p.join(), host.Host, host)
	state := func(what string, ok func(fleet.Inventory) bool) {
		t.Helper()
		p.waitStateSince(0, what, func(s wire.State) bool { return ok(s.Host.Inventory) })
	}
	state("a report without a look at the devices", func(inv fleet.Inventory) bool { return !inv.NICsCurrent && len(inv.NICs) > 0 })
	close(host.releaseRead)
	nic := func(inv fleet.Inventory, name string) (n fleet.HostNIC) {
		for _, d := range inv.NICs {
			if d.Name == name {
				n = d
			}
		}
		return n
	}
	state("the devices with their ports", func(inv fleet.Inventory) bool {
		return inv.NICsCurrent && nic(inv, "ens1f0np0").Master == "br0" && nic(inv, "ens1f0np0").Up
	})
	host.PullCable("ens1f0np0")
	state("the pulled cable", func(inv fleet.Inventory) bool { return inv.NICsCurrent && !nic(inv, "ens1f0np0").Up })
	host.RemoveDevice("virbr0")
	state("the removed bridge", func(inv fleet.Inventory) bool { return inv.NICsCurrent && nic(inv, "virbr0").Name == "" })
}
