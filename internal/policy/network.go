package policy

import "quantix/internal/fleet"

// NetworkHealthGroup counts the hosts that report the same health of a network.
type NetworkHealthGroup struct {
	State  fleet.NetworkState // as returned by fleet.NetworkHost.StateAt
	Active bool               // the hosts report the network as active, even with another fault
	Hosts  int
}

// NetworkHealth summarizes a network's health from its hosts' reports.
func NetworkHealth(groups []NetworkHealthGroup) fleet.NetworkHealth {
	var h fleet.NetworkHealth
	for _, g := range groups {
		h.Hosts += g.Hosts
		h.SeverityCounts.Add(g.State.Severity(), g.Hosts)
		if g.Active && g.State != fleet.NetworkUnknown {
			h.Active += g.Hosts
		}
	}
	return h
}
