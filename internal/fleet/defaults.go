package fleet

import (
	"cmp"
	"slices"
)

// VMDefaults are the pool and the network of a new VM where none is chosen, each with the reason. Either may be missing: then people choose.
type VMDefaults struct {
	Pool    DefaultPool
	Network DefaultNetwork
}

// DefaultPool is the pool of new disks. ID empty: there is none.
type DefaultPool struct {
	ID        PoolID
	Name, Why string
}

// DefaultNetwork is the network of new NICs. ID empty: there is none.
type DefaultNetwork struct {
	ID        NetworkID
	Kind      NetworkKind
	Name, Why string
}

// projectsDefault is the reason for what the project's settings name.
const projectsDefault = "default of the project"

// Or fills in what the project's settings do not name: of the pools the one with most free space, of the networks that are open to the project the NAT
// network. Both lists are in the order of names, which decides nothing.
func (d VMDefaults) Or(project ProjectID, pools []PoolView, networks []NetworkView) VMDefaults {
	if d.Pool.ID == "" {
		d.Pool = mostFree(pools)
	} else {
		d.Pool.Why = projectsDefault
	}
	if d.Network.ID == "" {
		d.Network = natNetwork(networksOpenTo(project, networks))
	} else {
		d.Network.Why = projectsDefault
	}
	return d
}

// mostFree is the pool with the most bytes that are promised to nobody, among those in which some host can make disks now.
func mostFree(pools []PoolView) DefaultPool {
	usable := slices.DeleteFunc(slices.Clone(pools), func(p PoolView) bool { return !p.MakesDisks() || p.Health.Healthy == 0 })
	if len(usable) == 0 {
		return DefaultPool{}
	}
	best := slices.MaxFunc(usable, func(a, b PoolView) int { return cmp.Compare(a.Health.free(), b.Health.free()) })
	why := "only pool"
	if len(usable) > 1 {
		why = "most free space: " + Bytes(max(best.Health.free(), 0))
	}
	return DefaultPool{best.ID, best.Name, why}
}

// MakesDisks reports whether disks are made in pools of its kind, and it is not being deleted.
func (p PoolView) MakesDisks() bool {
	is := p.Spec.Kind.Is()
	return p.DeletedAt == nil && (is.Kind == "" || is.Makes)
}

// free is how much of the pool is promised to no volume.
func (h PoolHealth) free() int64 { return h.AvailableBytes - h.ProvisionedBytes }

// networksOpenTo are the active networks that VMs of the project may be on.
func networksOpenTo(project ProjectID, networks []NetworkView) []NetworkView {
	return slices.DeleteFunc(slices.Clone(networks), func(n NetworkView) bool {
		return !n.OpenTo(project) || n.DeletedAt != nil || n.Health.Active == 0
	})
}

// OpenTo reports whether VMs of the project may be on the network.
func (v NetworkView) OpenTo(project ProjectID) bool {
	return !v.Restricted || slices.ContainsFunc(v.Grants, func(g NetworkGrant) bool { return g.ProjectID == "" || g.ProjectID == project })
}

// natNetwork is the network with NAT: of several the one on most hosts, or libvirt's own, which is named default. Without one it is the only network.
func natNetwork(networks []NetworkView) DefaultNetwork {
	nat := slices.DeleteFunc(slices.Clone(networks), func(n NetworkView) bool { return !n.nat() })
	if len(nat) > 1 {
		hosts := 0
		for _, n := range nat {
			hosts = max(hosts, n.Health.Active)
		}
		nat = slices.DeleteFunc(nat, func(n NetworkView) bool { return n.Health.Active < hosts })
	}
	if i := slices.IndexFunc(nat, func(n NetworkView) bool { return n.Name == "default" }); len(nat) > 1 && i >= 0 {
		nat = nat[i : i+1]
	}
	switch {
	case len(nat) == 1:
		return DefaultNetwork{nat[0].ID, nat[0].Kind, nat[0].Name, "NAT network"}
	case len(networks) == 1:
		return DefaultNetwork{networks[0].ID, networks[0].Kind, networks[0].Name, "only network"}
	}
	return DefaultNetwork{}
}

// nat reports whether the network translates addresses, by its definition or, of one that was found, by its hosts.
func (v NetworkView) nat() bool {
	if v.Spec != nil {
		return v.Spec.Mode == NetworkNAT
	}
	forward := string(NetworkNAT)
	return slices.Contains(v.Health.Forwards, forward) ||
		slices.ContainsFunc(v.Hosts, func(h NetworkHost) bool { return h.Status != nil && h.Status.Forward == forward })
}

// NetworkNamed is the network of that name among those that VMs of the project may be on; nil: none.
func NetworkNamed(project ProjectID, networks []NetworkView, name string) *NetworkView {
	open := networksOpenTo(project, networks)
	if i := slices.IndexFunc(open, func(n NetworkView) bool { return n.Name == name }); i >= 0 {
		return &open[i]
	}
	return nil
}
