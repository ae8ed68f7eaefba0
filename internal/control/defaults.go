package control

import (
	"context"
	"slices"
	"time"

	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
)

// VMDefaults returns the default pool and network for a new VM of the project. If a host or a cluster is named, only its
// pools and networks count.
func (c *Control) VMDefaults(ctx context.Context, a fleet.Actor, project fleet.ProjectID, host fleet.HostID, cluster fleet.ClusterID) (vmedit.Defaults, error) {
	pools, networks, err := c.readPoolsAndNetworks(ctx, host, cluster)
	if err != nil {
		return vmedit.Defaults{}, err
	}
	return c.VMDefaultsFromCandidates(ctx, a, project, pools, networks)
}

// VMDefaultsFromCandidates works like VMDefaults, but chooses among the pools and networks that the caller passes: see
// vmedit.Defaults.WithFallbacks.
func (c *Control) VMDefaultsFromCandidates(ctx context.Context, a fleet.Actor, project fleet.ProjectID, pools []fleet.PoolView, networks []fleet.NetworkView) (vmedit.Defaults, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return vmedit.Defaults{}, store.UnknownProjectError(err)
	}
	own, err := c.store.ProjectDefaults(ctx, project)
	if err != nil {
		return vmedit.Defaults{}, store.NotFoundError(err, "project")
	}
	set := vmedit.Defaults{
		Pool:    vmedit.DefaultPool{ID: fleet.PoolID(own.PoolID), Name: own.Pool},
		Network: vmedit.DefaultNetwork{ID: fleet.NetworkID(own.NetworkID), Kind: fleet.NetworkKind(own.NetworkKind), Name: own.Network},
	}
	return set.WithFallbacks(project, pools, networks), nil
}

// readPoolsAndNetworks returns the pools and networks that are active on a host of the named cluster, or of any cluster,
// with their health; or those of the named host with the host's status.
func (c *Control) readPoolsAndNetworks(ctx context.Context, host fleet.HostID, cluster fleet.ClusterID) (pools []fleet.PoolView, networks []fleet.NetworkView, err error) {
	if !fleet.IsID(string(host)) {
		if pools, err = query.ReadAllPages(ctx, fleet.SystemActor, fleet.Query{}, c.ListPools); err == nil {
			networks, err = c.UsableNetworks(ctx, fleet.SystemActor)
		}
		if err != nil || !fleet.IsID(string(cluster)) {
			return pools, networks, err
		}
		active, err := c.store.ActiveInCluster(ctx, cluster)
		pools = slices.DeleteFunc(pools, func(p fleet.PoolView) bool { return !slices.Contains(active, string(p.ID)) })
		networks = slices.DeleteFunc(networks, func(n fleet.NetworkView) bool { return !slices.Contains(active, string(n.ID)) })
		return pools, networks, store.UserError(err)
	}
	if pools, err = c.PoolsOnHost(ctx, fleet.SystemActor, host); err == nil {
		networks, err = c.NetworksOnHost(ctx, fleet.SystemActor, host)
	}
	for i := range pools {
		for _, status := range pools[i].Hosts {
			if status.Assigned && status.StateAt(time.Now()) == fleet.PoolActive {
				pools[i].Health = fleet.PoolHealth{Healthy: 1, AvailableBytes: status.Status.AvailableBytes, ProvisionedBytes: status.Status.ProvisionedBytes}
			}
		}
	}
	return pools, networks, err
}

// fillPoolAndNetworkDefaults returns the input with the default pool for each disk that names none, and the default
// network for each NIC that names none.
func (c *Control) fillPoolAndNetworkDefaults(ctx context.Context, a fleet.Actor, in CreateVM) (CreateVM, error) {
	noPool := func(d fleet.Disk) bool { return d.PoolID == "" && !d.Existing }
	noNetwork := func(n fleet.NIC) bool {
		return n.NetworkID == "" && n.Network == "" && n.Bridge == "" && n.PortGroup == ""
	}
	if in.ProjectID == "" || !slices.ContainsFunc(in.Spec.Disks, noPool) && !slices.ContainsFunc(in.Spec.NICs, noNetwork) {
		return in, nil
	}
	d, err := c.VMDefaults(ctx, a, in.ProjectID, in.HostID, in.ClusterID)
	if err != nil {
		return in, err
	}
	in.Spec.Disks, in.Spec.NICs = slices.Clone(in.Spec.Disks), slices.Clone(in.Spec.NICs)
	for i := range in.Spec.Disks {
		if disk := &in.Spec.Disks[i]; noPool(*disk) {
			disk.PoolID = d.Pool.ID
		}
	}
	for i, n := range in.Spec.NICs {
		if noNetwork(n) && d.Network.ID != "" {
			in.Spec.NICs[i] = n.WithNetwork(d.Network.ID, d.Network.Kind, d.Network.Name)
		}
	}
	return in, nil
}

// applianceNICs returns the NICs that an appliance file proposes. Each NIC gets the network of the same name, or else
// the default network. A NIC is left out if neither exists.
func (c *Control) applianceNICs(ctx context.Context, a fleet.Actor, in CreateVM, from fleet.Appliance, nics []fleet.NIC) ([]fleet.NIC, error) {
	if len(nics) == 0 || in.ProjectID == "" {
		return nil, nil
	}
	pools, networks, err := c.readPoolsAndNetworks(ctx, in.HostID, in.ClusterID)
	if err != nil {
		return nil, err
	}
	d, err := c.VMDefaultsFromCandidates(ctx, a, in.ProjectID, pools, networks)
	if err != nil {
		return nil, err
	}
	var out []fleet.NIC
	for i, n := range nics {
		if same := vmedit.NetworkByName(in.ProjectID, networks, from.NICs[i].Network); same != nil {
			out = append(out, n.WithNetwork(same.ID, same.Kind, same.Name))
		} else if d.Network.ID != "" {
			out = append(out, n.WithNetwork(d.Network.ID, d.Network.Kind, d.Network.Name))
		}
	}
	return out, nil
}
