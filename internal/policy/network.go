package policy

import "quantix/internal/fleet"

// NetworkGroup is all hosts that say the same of a network, as far as its health goes.
type NetworkGroup struct {
	State  fleet.NetworkState // as of fleet.NetworkHost.StateAt
	Active bool               // they say that it is active, whatever else is wrong with it
	Hosts  int
}

// NetworkHealth judges a network by what its hosts say.
func NetworkHealth(groups []NetworkGroup) fleet.NetworkHealth {
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
