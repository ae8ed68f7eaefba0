package query

import (
	"context"
	"encoding/json"
	"slices"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// maxAdoptionHosts is the maximum number of hosts with an equal object that an adoption offers.
const maxAdoptionHosts = 101

// DiscoveredPools lists the host's own pools that are not assigned to it, by name, with the reason for each that cannot
// be adopted.
func (b *Queries) DiscoveredPools(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]fleet.DiscoveredPool, error) {
	h, err := b.GetHost(ctx, a, host)
	if err != nil {
		return nil, err
	}
	assigned, err := b.PoolsOnHost(ctx, a, host) // the report may be older than an assignment
	if err != nil {
		return nil, err
	}
	out := []fleet.DiscoveredPool{}
	if h.Status == nil {
		return out, nil
	}
	var names []string
	for _, p := range h.Status.UnmanagedPools() {
		if !slices.ContainsFunc(assigned, func(v fleet.PoolView) bool { return v.Name == p.Name }) {
			out, names = append(out, p), append(names, p.Name)
		}
	}
	rows, err := b.store.PoolsNamed(ctx, names)
	if err != nil {
		return nil, store.UserError(err)
	}
	for i, p := range out {
		out[i] = besideQuantixPool(p, rows)
	}
	return out, nil
}

func besideQuantixPool(p fleet.DiscoveredPool, named []db.Pool) fleet.DiscoveredPool {
	if i := slices.IndexFunc(named, func(r db.Pool) bool { return r.Name == p.Name }); i >= 0 {
		return adoption.BesideQuantixPool(p, new(store.PoolFromRow(named[i])))
	}
	return adoption.BesideQuantixPool(p, nil)
}

// PoolAdoption returns a discovered pool of the host, with the other hosts that have an equal one.
func (b *Queries) PoolAdoption(ctx context.Context, a fleet.Actor, host fleet.HostID, name string) (adoption.Pool, error) {
	var out adoption.Pool
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return out, err
	}
	rows, err := b.store.DiscoveredPoolsNamed(ctx, db.DiscoveredPoolsNamedParams{Name: name, HostID: string(host), Hosts: []string{}, Most: maxAdoptionHosts})
	if err != nil {
		return out, store.UserError(err)
	}
	if len(rows) == 0 || rows[0].ID != host {
		return out, fleet.Errorf(fleet.NotFound, "The host reports no pool named %q that could be adopted.", name)
	}
	named, err := b.store.PoolsNamed(ctx, []string{name})
	if err != nil {
		return out, store.UserError(err)
	}
	out.Others = []fleet.NamedHost{}
	for i, r := range rows {
		var p fleet.DiscoveredPool
		if err := json.Unmarshal(r.Pool, &p); err != nil {
			return out, err
		}
		at := fleet.NamedHost{HostID: r.ID, HostName: r.Name}
		switch {
		case i == 0:
			out.NamedHost, out.Pool = at, besideQuantixPool(p, named)
		case out.Pool.Spec != nil && p.Spec != nil && adoption.SameStorage(*p.Spec, *out.Pool.Spec):
			out.Others = append(out.Others, at)
		}
	}
	return out, nil
}

// DiscoveredNetworks lists the host's own libvirt networks that are not assigned to it, by name, with the reason for each
// that cannot be adopted.
func (b *Queries) DiscoveredNetworks(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]adoption.DiscoveredNetwork, error) {
	if _, err := b.GetHost(ctx, a, host); err != nil {
		return nil, err
	}
	networks, err := b.NetworksOnHost(ctx, a, host)
	if err != nil {
		return nil, err
	}
	out := []adoption.DiscoveredNetwork{}
	for _, n := range networks {
		if d, ok := adoption.DiscoveredOn(n, host); ok {
			out = append(out, d)
		}
	}
	return out, nil
}

// NetworkAdoption returns a discovered network of the host, with the other hosts that have an equal one.
func (b *Queries) NetworkAdoption(ctx context.Context, a fleet.Actor, host fleet.HostID, name string) (adoption.Network, error) {
	var out adoption.Network
	all, err := b.DiscoveredNetworks(ctx, a, host)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(all, func(d adoption.DiscoveredNetwork) bool { return d.Name == name })
	if i < 0 {
		return out, fleet.Errorf(fleet.NotFound, "The host reports no libvirt network named %q that could be adopted.", name)
	}
	out.Network = all[i]
	rows, err := b.store.DiscoveredNetworksNamed(ctx, db.DiscoveredNetworksNamedParams{Name: name, HostID: string(host), Most: maxAdoptionHosts})
	if err != nil {
		return out, store.UserError(err)
	}
	out.Others = []fleet.NamedHost{}
	for _, r := range rows {
		var def *fleet.HostNetworkDefinition
		if err := json.Unmarshal(r.Definition, &def); err != nil {
			return out, err
		}
		at := fleet.NamedHost{HostID: r.HostID, HostName: r.HostName}
		switch {
		case r.HostID == host:
			out.NamedHost = at
		case out.Network.Spec != nil && def != nil && def.Spec != nil && adoption.SameDefinition(*def.Spec, *out.Network.Spec):
			out.Others = append(out.Others, at)
		}
	}
	return out, nil
}
