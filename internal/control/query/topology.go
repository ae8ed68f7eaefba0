package query

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// HostTopology returns the networks, VMs and unmanaged VMs of one host.
func (b *Queries) HostTopology(ctx context.Context, a fleet.Actor, id fleet.HostID) (t diagram.HostTopology, err error) {
	if t.Host, err = b.GetHost(ctx, a, id); err != nil {
		return t, err
	}
	if t.Networks, err = b.NetworksOnHost(ctx, a, id); err != nil {
		return t, err
	}
	on := "host:" + strconv.Quote(t.Host.Name)
	vms, err := b.ListVMs(ctx, a, fleet.Query{Filter: on, Limit: diagram.TopologyRead})
	if err != nil {
		return t, err
	}
	found, err := b.ListDiscoveredVMs(ctx, a, fleet.Query{Filter: on, Limit: diagram.TopologyRead})
	if err != nil {
		return t, err
	}
	t.VMs = limitTopologyVMs(vms.Items)
	t.Discovered = found.Items[:min(len(found.Items), diagram.TopologyVMs-len(t.VMs))]
	t.More = max(t.Host.VMs, len(vms.Items)) - len(t.VMs) + len(found.Items) - len(t.Discovered)
	return t, nil
}

// limitTopologyVMs limits the VMs to the number that a topology shows. If there are more, it prefers VMs that need
// attention and sorts the result by name.
func limitTopologyVMs(all []fleet.VMView) []fleet.VMView {
	rank := func(v fleet.VMView) int { return hostStatusRank(v.Phase.Severity(), v.Attention) }
	if len(all) > diagram.TopologyVMs {
		slices.SortStableFunc(all, func(x, y fleet.VMView) int { return cmp.Compare(rank(x), rank(y)) })
		all = all[:diagram.TopologyVMs]
		slices.SortStableFunc(all, func(x, y fleet.VMView) int { return cmp.Compare(x.Name, y.Name) })
	}
	return all
}

// NetworkTopology returns a network with its hosts, their devices, and its VMs.
func (b *Queries) NetworkTopology(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (t diagram.NetworkTopology, err error) {
	if t.Network, err = b.NetworkBrief(ctx, a, id); err != nil {
		return t, err
	}
	vms, err := b.ListVMs(ctx, a, fleet.Query{Filter: "network:" + strconv.Quote(t.Network.Name), Limit: diagram.TopologyRead})
	if err != nil {
		return t, err
	}
	t.VMs, t.Further = limitTopologyVMs(vms.Items), vms.Next != ""
	t.More = len(vms.Items) - len(t.VMs)
	if !policy.May(a, policy.InfraSee, "") {
		return t, nil
	}
	page, err := b.networkHosts(ctx, id, fleet.Query{Limit: diagram.TopologyHosts})
	if err != nil {
		return t, err
	}
	t.Hosts, t.MoreHosts = page.Items, max(0, t.Network.Health.Hosts-len(page.Items))
	hosts := make([]fleet.HostID, len(t.Hosts))
	for i, h := range t.Hosts {
		hosts[i] = h.HostID
	}
	t.Devices, err = b.networkDevices(ctx, hosts)
	return t, err
}

// networkDevices reads the network devices of a few hosts.
func (b *Queries) networkDevices(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID]diagram.HostNetworkDevices, error) {
	out := map[fleet.HostID]diagram.HostNetworkDevices{}
	if len(hosts) == 0 {
		return out, nil
	}
	var s statementBuilder
	s.addCondition("h.id = ANY (" + s.addKeyArg(store.ToStrings(hosts)) + "::text[])")
	_, err := collectRows(ctx, b, `SELECT h.id, COALESCE(h.status->'inventory'->'nics', '[]'), COALESCE((h.status->'inventory'->'nicsLooked')::boolean, false) FROM hosts h`+s.whereClause(), &s,
		func(x pgx.CollectableRow) (none struct{}, err error) {
			var id fleet.HostID
			var d diagram.HostNetworkDevices
			err = x.Scan(&id, &d.NICs, &d.Current)
			out[id] = d
			return none, err
		})
	return out, err
}

// NetworkGrid returns a page of hosts as in ListHosts, a page of networks as in ListNetworks, and the status of each
// network on each host.
func (b *Queries) NetworkGrid(ctx context.Context, a fleet.Actor, hosts, networks fleet.Query) (g diagram.NetworkGrid, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return g, err
	}
	if g.Hosts, err = b.ListHosts(ctx, a, hosts); err != nil {
		return g, err
	}
	if g.Networks, err = b.ListNetworks(ctx, a, networks); err != nil {
		return g, err
	}
	hostIDs, networkIDs := make([]fleet.HostID, len(g.Hosts.Items)), make([]fleet.NetworkID, len(g.Networks.Items))
	for i, h := range g.Hosts.Items {
		hostIDs[i] = h.ID
	}
	for i, n := range g.Networks.Items {
		networkIDs[i] = n.ID
	}
	g.Statuses, err = b.networkGridStatuses(ctx, hostIDs, networkIDs)
	return g, err
}

func (b *Queries) networkGridStatuses(ctx context.Context, hosts []fleet.HostID, networks []fleet.NetworkID) (map[diagram.NetworkOnHost]diagram.NetworkHostStatus, error) {
	statuses := map[diagram.NetworkOnHost]diagram.NetworkHostStatus{}
	if len(hosts) == 0 || len(networks) == 0 {
		return statuses, nil
	}
	var s statementBuilder
	s.addCondition("a.noun = 'net' AND a.object_id = ANY (" + s.addKeyArg(store.ToStrings(networks)) + "::text[]) AND a.host_id = ANY (" + s.addKeyArg(store.ToStrings(hosts)) + "::text[])")
	_, err := collectRows(ctx, b, `SELECT a.object_id, a.host_id, COALESCE(a.said, ''), `+reportsFreshSQL+`, a.faulty, a.asked = 'release'
		FROM assignments a LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.whereClause(), &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var at diagram.NetworkOnHost
		var reported fleet.NetworkState
		var faulty, fresh, leaving bool
		err = x.Scan(&at.Network, &at.Host, &reported, &fresh, &faulty, &leaving)
		statuses[at] = diagram.NetworkHostStatus{State: fleet.DeriveNetworkState(reported, faulty, fresh), Leaving: leaving}
		return none, err
	})
	return statuses, err
}
