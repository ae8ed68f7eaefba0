package vmedit

import (
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

// WithFallbacks fills in defaults that the project's settings lack: the only pool and the only network that are published
// to the project and usable now. Among several, the user must choose.
func (d Defaults) WithFallbacks(project fleet.ProjectID, pools []fleet.PoolView, networks []fleet.NetworkView) Defaults {
	if d.Pool.ID != "" {
		d.Pool.Why = projectDefaultReason
	} else if usable := poolsOpenToProject(project, pools); len(usable) == 1 {
		d.Pool = DefaultPool{usable[0].ID, usable[0].Name, "only pool"}
	}
	if d.Network.ID != "" {
		d.Network.Why = projectDefaultReason
	} else if usable := networksOpenToProject(project, networks); len(usable) == 1 {
		d.Network = DefaultNetwork{usable[0].ID, usable[0].Kind, usable[0].Name, "only network"}
	}
	return d
}

// poolsOpenToProject returns the pools that VMs of the project may use and where a host can create disks now.
func poolsOpenToProject(project fleet.ProjectID, pools []fleet.PoolView) []fleet.PoolView {
	return slices.DeleteFunc(slices.Clone(pools), func(p fleet.PoolView) bool {
		return !p.OpenToProject(project) || !p.SupportsNewDisks() || p.Health.Healthy == 0
	})
}

// networksOpenToProject returns the active networks that VMs of the project may use.
func networksOpenToProject(project fleet.ProjectID, networks []fleet.NetworkView) []fleet.NetworkView {
	return slices.DeleteFunc(slices.Clone(networks), func(n fleet.NetworkView) bool {
		return !n.OpenToProject(project) || n.DeletedAt != nil || n.Health.Active == 0
	})
}

// NetworkByName returns the named network among those that VMs of the project may use, or nil.
func NetworkByName(project fleet.ProjectID, networks []fleet.NetworkView, name string) *fleet.NetworkView {
	open := networksOpenToProject(project, networks)
	if i := slices.IndexFunc(open, func(n fleet.NetworkView) bool { return n.Name == name }); i >= 0 {
		return &open[i]
	}
	return nil
}
