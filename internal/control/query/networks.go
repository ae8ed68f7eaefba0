package query

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// networkVisibleSQL is the condition that the network with alias n is visible. A discovered network that has
// disappeared from all hosts stays in the table only to keep its ID.
const networkVisibleSQL = "n.spec IS NOT NULL OR EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id)"

// networkSQL selects networks under the alias n.
const networkSQL = `SELECT n.id, n.name, n.kind, n.spec, n.generation, n.created_at, n.deleted_at, n.peers FROM networks n`

var networksByName = sortOrder[fleet.NetworkView]{[]sortColumn{textColumn("n.name"), textColumn("n.id")}, func(v fleet.NetworkView) []string {
	return []string{v.Name, string(v.ID)}
}}

var networkSortOrders = sortOrders[fleet.NetworkView]{
	"name": networksByName,
	"kind": networksByName.withFirstColumn(textColumn("n.kind"), func(v fleet.NetworkView) string { return string(v.Kind) }),
}

// networkFilter are the conditions of fleet.NetworkKeys.
var networkFilter = listFilter{
	"name":  lowerTextCondition("lower(n.name)"),
	"kind":  exactTextCondition("n.kind"),
	"drift": driftedOnHost("network_id", "n.id"),
	"host":  assignedHostCondition("network_id", "n.id"),
	"uuid":  lowerTextCondition("n.id"),
}

var networkList = list[fleet.NetworkView]{
	name: "network", see: policy.StorageSee, orders: networkSortOrders, sort: "name", of: fleet.TypeNetwork, filter: networkFilter, id: "n.id",
	restrict: (*statementBuilder).whereNetworkListed, read: (*Queries).readNetworks,
}

// whereNetworkListed limits networks (alias n) to those that lists and the search show to the actor.
func (s *statementBuilder) whereNetworkListed(a fleet.Actor, _ fleet.ProjectID) {
	s.addCondition(networkVisibleSQL)
	s.whereNetworkVisible(a)
}

// ListNetworks returns one page of networks with the hosts that have them. Sorts: name, kind.
func (b *Queries) ListNetworks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	return networkList.readPage(ctx, b, a, q)
}

// readNetworks reads the networks (alias n) that s selects, with their health, and the hosts of networks with at most
// maxHostsNamed hosts.
func (b *Queries) readNetworks(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]fleet.NetworkView, error) {
	views, err := collectRows(ctx, b, networkSQL+s.whereClause()+tail, s, scanNetwork)
	if err != nil || len(views) == 0 {
		return views, err
	}
	views = redactAll(a, views, redactNetwork)
	if err := b.addNetworkHealth(ctx, a, views); err != nil {
		return nil, err
	}
	if store.SeesHosts(a) {
		err = b.addHostsOfSmallNetworks(ctx, a, views)
	} else {
		err = b.redactNetworkHealth(ctx, a, views)
	}
	if err != nil {
		return nil, err
	}
	return views, b.addNetworkGrants(ctx, a, views)
}

func scanNetwork(x pgx.CollectableRow) (v fleet.NetworkView, err error) {
	v.Grants, v.Hosts, v.Restricted = []fleet.NetworkGrant{}, []fleet.NetworkHost{}, true
	err = x.Scan(&v.ID, &v.Name, &v.Kind, &v.Spec, &v.Generation, &v.CreatedAt, &v.DeletedAt, &v.Peers)
	return v, err
}

// GetNetwork returns one network with the first page of its host statuses.
func (b *Queries) GetNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (fleet.NetworkView, error) {
	v, err := b.NetworkBrief(ctx, a, id)
	if err != nil {
		return v, err
	}
	if !store.SeesHosts(a) {
		return v, nil
	}
	page, err := b.networkHosts(ctx, id, fleet.Query{})
	v.Hosts = page.Items
	return v, err
}

// NetworkBrief returns one network. It contains the host statuses only if there are at most maxHostsNamed.
func (b *Queries) NetworkBrief(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (fleet.NetworkView, error) {
	return networkList.readOne(ctx, b, a, string(id))
}

// NetworksOnHost lists the networks and bridges of one host by name, each with only that host's status.
func (b *Queries) NetworksOnHost(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return nil, err
	}
	var s, of statementBuilder
	s.addCondition("n.id IN (SELECT x.network_id FROM assignments x WHERE x.host_id = " + s.addKeyArg(string(host)) + ")")
	s.whereNetworkVisible(a)
	views, err := collectRows(ctx, b, networkSQL+s.whereClause()+" ORDER BY n.name, n.id", &s, scanNetwork)
	if err != nil {
		return nil, err
	}
	of.addCondition("a.network_id IS NOT NULL AND a.host_id = " + of.addKeyArg(string(host)))
	statuses, err := b.readNetworkStatuses(ctx, of)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, c := range statuses {
		if i := slices.IndexFunc(views, func(v fleet.NetworkView) bool { return v.ID == c.NetworkID }); i >= 0 {
			views[i].Hosts = append(views[i].Hosts, redactNetworkHost(a, c))
			views[i].Health = policy.NetworkHealth([]policy.NetworkHealthGroup{{State: c.StateAt(now), Active: c.Status != nil && c.Status.Active, Hosts: 1}})
		}
	}
	return views, b.addNetworkGrants(ctx, a, views)
}
