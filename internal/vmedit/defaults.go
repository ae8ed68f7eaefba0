package vmedit

import (
	"cmp"
	"slices"

	"quantix/internal/fleet"
)

// Defaults are the default pool and network of a new VM, each with the reason. Where a default is missing, the user
// must choose.
type Defaults struct {
	Pool    DefaultPool
	Network DefaultNetwork
}

// DefaultPool is the default pool of new disks. Empty ID: none.
type DefaultPool struct {
	ID        fleet.PoolID
	Name, Why string
}

// DefaultNetwork is the default network of new NICs. Empty ID: none.
type DefaultNetwork struct {
	ID        fleet.NetworkID
	Kind      fleet.NetworkKind
	Name, Why string
}

// projectDefaultReason is the reason of a default from the project's settings.
const projectDefaultReason = "default of the project"

// WithFallbacks fills in defaults that the project's settings lack: the pool with the most free space, and the NAT
// network among those open to the project. The order of both lists does not matter.
func (d Defaults) WithFallbacks(project fleet.ProjectID, pools []fleet.PoolView, networks []fleet.NetworkView) Defaults {
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
func poolWithMostFreeSpace(pools []fleet.PoolView) DefaultPool {
	usable := slices.DeleteFunc(slices.Clone(pools), func(p fleet.PoolView) bool { return !p.SupportsNewDisks() || p.Health.Healthy == 0 })
	if len(usable) == 0 {
		return DefaultPool{}
	}
	best := slices.MaxFunc(usable, func(a, b fleet.PoolView) int { return cmp.Compare(freeBytes(a.Health), freeBytes(b.Health)) })
	why := "only pool"
	if len(usable) > 1 {
		why = "most free space: " + fleet.FormatBytes(max(freeBytes(best.Health), 0))
	}
	return DefaultPool{best.ID, best.Name, why}
}

// freeBytes returns the pool's unreserved space in bytes; negative if overcommitted.
func freeBytes(h fleet.PoolHealth) int64 { return h.AvailableBytes - h.ProvisionedBytes }

// networksOpenToProject returns the active networks that VMs of the project may use.
func networksOpenToProject(project fleet.ProjectID, networks []fleet.NetworkView) []fleet.NetworkView {
	return slices.DeleteFunc(slices.Clone(networks), func(n fleet.NetworkView) bool {
		return !n.OpenToProject(project) || n.DeletedAt != nil || n.Health.Active == 0
	})
}

// fallbackNetwork returns the NAT network: of several, the one on most hosts, then libvirt's network "default". Without a
// NAT network it returns the only network.
func fallbackNetwork(networks []fleet.NetworkView) DefaultNetwork {
	nat := slices.DeleteFunc(slices.Clone(networks), func(n fleet.NetworkView) bool { return !usesNAT(n) })
	if len(nat) > 1 {
		hosts := 0
		for _, n := range nat {
			hosts = max(hosts, n.Health.Active)
		}
		nat = slices.DeleteFunc(nat, func(n fleet.NetworkView) bool { return n.Health.Active < hosts })
	}
	if i := slices.IndexFunc(nat, func(n fleet.NetworkView) bool { return n.Name == "default" }); len(nat) > 1 && i >= 0 {
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
func usesNAT(v fleet.NetworkView) bool {
	if v.Spec != nil {
		return v.Spec.Mode == fleet.NetworkNAT
	}
	forward := string(fleet.NetworkNAT)
	return slices.Contains(v.Health.Forwards, forward) ||
		slices.ContainsFunc(v.Hosts, func(h fleet.NetworkHost) bool { return h.Status != nil && h.Status.Forward == forward })
}

// NetworkByName returns the named network among those that VMs of the project may use, or nil.
func NetworkByName(project fleet.ProjectID, networks []fleet.NetworkView, name string) *fleet.NetworkView {
	open := networksOpenToProject(project, networks)
	if i := slices.IndexFunc(open, func(n fleet.NetworkView) bool { return n.Name == name }); i >= 0 {
		return &open[i]
	}
	return nil
}
