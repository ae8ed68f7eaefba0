package fleet

import (
	"cmp"
	"slices"
)

// VMDefaults are the default pool and network of a new VM, each with the reason. Where a default is missing, the user
// must choose.
type VMDefaults struct {
	Pool    DefaultPool
	Network DefaultNetwork
}

// DefaultPool is the default pool of new disks. Empty ID: none.
type DefaultPool struct {
	ID        PoolID
	Name, Why string
}

// DefaultNetwork is the default network of new NICs. Empty ID: none.
type DefaultNetwork struct {
	ID        NetworkID
	Kind      NetworkKind
	Name, Why string
}

// projectDefaultReason is the reason of a default from the project's settings.
const projectDefaultReason = "default of the project"

// WithFallbacks fills in defaults that the project's settings lack: the pool with the most free space, and the NAT
// network among those open to the project. The order of both lists does not matter.
func (d VMDefaults) WithFallbacks(project ProjectID, pools []PoolView, networks []NetworkView) VMDefaults {
	if d.Pool.ID == "" {
		d.Pool = poolWithMostFreeSpace(pools)
	} else {
		d.Pool.Why = projectDefaultReason
	}
	if d.Network.ID == "" {
		d.Network = fallbackNetwork(networksOpenToProject(project, networks))
	} else {
		d.Network.Why = projectDefaultReason
	}
	return d
}

// poolWithMostFreeSpace returns the pool with the most unreserved space, among pools where a host can create disks now.
func poolWithMostFreeSpace(pools []PoolView) DefaultPool {
	usable := slices.DeleteFunc(slices.Clone(pools), func(p PoolView) bool { return !p.SupportsNewDisks() || p.Health.Healthy == 0 })
	if len(usable) == 0 {
		return DefaultPool{}
	}
	best := slices.MaxFunc(usable, func(a, b PoolView) int { return cmp.Compare(a.Health.freeBytes(), b.Health.freeBytes()) })
	why := "only pool"
	if len(usable) > 1 {
		why = "most free space: " + FormatBytes(max(best.Health.freeBytes(), 0))
	}
	return DefaultPool{best.ID, best.Name, why}
}

// SupportsNewDisks reports whether the pool's kind supports new disks and the pool is not being deleted.
func (p PoolView) SupportsNewDisks() bool {
	is := p.Spec.Kind.Info()
	return p.DeletedAt == nil && (is.Kind == "" || is.CreatesVolumes)
}

// freeBytes returns the pool's unreserved space in bytes; negative if overcommitted.
func (h PoolHealth) freeBytes() int64 { return h.AvailableBytes - h.ProvisionedBytes }

// networksOpenToProject returns the active networks that VMs of the project may use.
func networksOpenToProject(project ProjectID, networks []NetworkView) []NetworkView {
	return slices.DeleteFunc(slices.Clone(networks), func(n NetworkView) bool {
		return !n.OpenToProject(project) || n.DeletedAt != nil || n.Health.Active == 0
	})
}

// OpenToProject reports whether VMs of the project may use the network.
func (v NetworkView) OpenToProject(project ProjectID) bool {
	return !v.Restricted || slices.ContainsFunc(v.Grants, func(g NetworkGrant) bool { return g.ProjectID == "" || g.ProjectID == project })
}

// fallbackNetwork returns the NAT network: of several, the one on most hosts, then libvirt's network "default". Without a
// NAT network it returns the only network.
func fallbackNetwork(networks []NetworkView) DefaultNetwork {
	nat := slices.DeleteFunc(slices.Clone(networks), func(n NetworkView) bool { return !n.usesNAT() })
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

// usesNAT reports whether the network uses NAT, by its spec or, if unmanaged, by its hosts' reports.
func (v NetworkView) usesNAT() bool {
	if v.Spec != nil {
		return v.Spec.Mode == NetworkNAT
	}
	forward := string(NetworkNAT)
	return slices.Contains(v.Health.Forwards, forward) ||
		slices.ContainsFunc(v.Hosts, func(h NetworkHost) bool { return h.Status != nil && h.Status.Forward == forward })
}

// NetworkByName returns the named network among those that VMs of the project may use, or nil.
func NetworkByName(project ProjectID, networks []NetworkView, name string) *NetworkView {
	open := networksOpenToProject(project, networks)
	if i := slices.IndexFunc(open, func(n NetworkView) bool { return n.Name == name }); i >= 0 {
		return &open[i]
	}
	return nil
}
