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

// shownNetworkSQL is the condition that the network with alias n is visible. A discovered network that has disappeared
// from all hosts stays in the table only to keep its ID.
const shownNetworkSQL = "n.spec IS NOT NULL OR EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id)"

// networkSQL selects networks under the alias n.
const networkSQL = `SELECT n.id, n.name, n.kind, n.spec, n.generation, n.created_at, n.deleted_at, leads_out(n.id, n.kind), n.peers FROM networks n`

var networkOrders = orders[fleet.NetworkView]{
	"name": {[]column{textColumn("n.name"), textColumn("n.id")}, func(v fleet.NetworkView) []string { return []string{v.Name, string(v.ID)} }},
}

// ListNetworks returns one page of networks with the hosts that have them. Sort: name.
func (b *Queries) ListNetworks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.Page[fleet.NetworkView]{}, err
	}
	p, terms, err := networkOrders.parse(q, "name", fleet.NetworkKeys)
	if err != nil {
		return fleet.Page[fleet.NetworkView]{}, err
	}
	var s statement
	s.and(shownNetworkSQL)
	s.knownNetworks(a)
	for _, t := range terms {
		switch t.Key {
		case "name":
			s.not(t.Not, s.text("lower(n.name)", lower(t.Alternatives)))
		case "kind":
			s.not(t.Not, s.text("n.kind", t.Alternatives))
		case "host":
			ids, err := b.poolHostIDs(ctx, a, t)
			if err != nil {
				return fleet.Page[fleet.NetworkView]{}, err
			}
			s.not(t.Not, "EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id AND "+s.oneOf("x.host_id", ids)+")")
		}
	}
	tail := p.applyCursor(&s)
	views, err := b.networks(ctx, a, s, tail)
	return p.pageOf(views), err
}

// networks reads the networks (alias n) that s selects, with their health, and the hosts of networks with at most
// maxHostsNamed hosts.
func (b *Queries) networks(ctx context.Context, a fleet.Actor, s statement, tail string) ([]fleet.NetworkView, error) {
	views, err := collect(ctx, b, networkSQL+s.conditions()+tail, &s, scanNetwork)
	if err != nil || len(views) == 0 {
		return views, err
	}
	views = redactAll(a, views, networkFor)
	if err := b.addNetworkHealth(ctx, views); err != nil {
		return nil, err
	}
	if err := b.addFewHosts(ctx, a, views); err != nil {
		return nil, err
	}
	return views, b.addGrants(ctx, a, views)
}

func scanNetwork(x pgx.CollectableRow) (v fleet.NetworkView, err error) {
	v.Grants, v.Hosts = []fleet.NetworkGrant{}, []fleet.NetworkHost{}
	err = x.Scan(&v.ID, &v.Name, &v.Kind, &v.Spec, &v.Generation, &v.CreatedAt, &v.DeletedAt, &v.Restricted, &v.Peers)
	return v, err
}

// GetNetwork returns one network with the first page of its host statuses.
func (b *Queries) GetNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (fleet.NetworkView, error) {
	v, err := b.NetworkBrief(ctx, a, id)
	if err != nil {
		return v, err
	}
	page, err := b.networkHosts(ctx, id, fleet.Query{})
	v.Hosts = redactAll(a, page.Items, networkHostFor)
	return v, err
}

// NetworkBrief returns one network. Its hosts are included only if there are at most maxHostsNamed.
func (b *Queries) NetworkBrief(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.NetworkView{}, err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return fleet.NetworkView{}, err
	}
	var s statement
	s.and("n.id = " + s.arg(string(id)))
	s.knownNetworks(a)
	s.and(shownNetworkSQL)
	views, err := b.networks(ctx, a, s, "")
	if err == nil && len(views) == 0 {
		err = store.NotFound(pgx.ErrNoRows, "network")
	}
	if err != nil {
		return fleet.NetworkView{}, err
	}
	return views[0], nil
}

// NetworksOn lists the networks and bridges of one host by name, each with only that host's status.
func (b *Queries) NetworksOn(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return nil, err
	}
	var s, of statement
	s.and("n.id IN (SELECT x.network_id FROM assignments x WHERE x.host_id = " + s.key(string(host)) + ")")
	s.knownNetworks(a)
	views, err := collect(ctx, b, networkSQL+s.conditions()+" ORDER BY n.name, n.id", &s, scanNetwork)
	if err != nil {
		return nil, err
	}
	of.and("a.network_id IS NOT NULL AND a.host_id = " + of.key(string(host)))
	statuses, err := b.networkStatuses(ctx, of)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, c := range statuses {
		if i := slices.IndexFunc(views, func(v fleet.NetworkView) bool { return v.ID == c.NetworkID }); i >= 0 {
			views[i].Hosts = append(views[i].Hosts, networkHostFor(a, c))
			views[i].Health = policy.NetworkHealth([]policy.NetworkGroup{{State: c.StateAt(now), Active: c.Status != nil && c.Status.Active, Hosts: 1}})
		}
	}
	return views, b.addGrants(ctx, a, views)
}
