package browse

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var networkOrders = orders[fleet.NetworkView]{
	"name": {[]column{textColumn("n.name"), textColumn("n.id")}, func(v fleet.NetworkView) []string { return []string{v.Name, string(v.ID)} }},
}

// ListNetworks returns one page of networks with the hosts that have them. Sort: name.
func (b *Browse) ListNetworks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.Page[fleet.NetworkView]{}, err
	}
	p, terms, err := networkOrders.asked(q, "name", fleet.NetworkKeys)
	if err != nil {
		return fleet.Page[fleet.NetworkView]{}, err
	}
	var s statement
	// A network that no host has any more is kept for its id, not for people.
	s.and("EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id)")
	s.knownNetworks(a)
	for _, t := range terms {
		switch t.Key {
		case "name":
			s.not(t.Not, s.text("lower(n.name)", lower(t.Any)))
		case "kind":
			s.not(t.Not, s.text("n.kind", t.Any))
		case "host":
			ids, err := b.poolHostIDs(ctx, a, t)
			if err != nil {
				return fleet.Page[fleet.NetworkView]{}, err
			}
			s.not(t.Not, "EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id AND "+s.oneOf("x.host_id", ids)+")")
		}
	}
	tail := p.apply(&s)
	views, err := b.networks(ctx, a, "(SELECT * FROM networks n"+s.conditions()+tail+")", p.by(), statement{args: s.args, varies: s.varies, searches: s.searches})
	return p.cut(views), err
}

// networks reads networks n with their hosts. Who does not see hosts is shown whether a network is there, not how it is made.
func (b *Browse) networks(ctx context.Context, a fleet.Actor, from, by string, s statement) ([]fleet.NetworkView, error) {
	type row struct {
		network    fleet.Network
		host       fleet.NetworkHost
		restricted bool
	}
	rows, err := collect(ctx, b, `SELECT n.id, n.name, n.kind, n.generation, n.created_at, nh.host_id, h.name, nh.status, s.looked_at, leads_out(n.id, n.kind)
		FROM `+from+` n JOIN assignments nh ON nh.network_id = n.id JOIN hosts h ON h.id = nh.host_id LEFT JOIN host_sessions s ON s.host_id = nh.host_id`+
		s.conditions()+` ORDER BY `+by+`, h.name`, &s, func(x pgx.CollectableRow) (row, error) {
		var r row
		err := x.Scan(&r.network.ID, &r.network.Name, &r.network.Kind, &r.network.Generation, &r.network.CreatedAt,
			&r.host.HostID, &r.host.HostName, &r.host.Status, &r.host.SeenAt, &r.restricted)
		r.host.NetworkID = r.network.ID
		return r, err
	})
	if err != nil {
		return nil, err
	}
	views := []fleet.NetworkView{}
	for _, r := range rows {
		if n := len(views); n == 0 || views[n-1].ID != r.network.ID {
			views = append(views, fleet.NetworkView{Network: r.network, Restricted: r.restricted, Grants: []fleet.NetworkGrant{}})
		}
		v := &views[len(views)-1]
		v.Hosts = append(v.Hosts, networkHostFor(a, r.host))
	}
	return views, b.addGrants(ctx, a, views)
}

// GetNetwork returns one network.
func (b *Browse) GetNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID) (fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.NetworkView{}, err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return fleet.NetworkView{}, err
	}
	var s statement
	s.and("n.id = " + s.arg(string(id)))
	s.knownNetworks(a)
	views, err := b.networks(ctx, a, "networks", "n.id", s)
	if err == nil && len(views) == 0 {
		err = store.NotFound(pgx.ErrNoRows, "network")
	}
	if err != nil {
		return fleet.NetworkView{}, err
	}
	return views[0], nil
}

// NetworksOn lists the networks and bridges of one host, by name; of all hosts where host is empty.
func (b *Browse) NetworksOn(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statement
	if host != "" {
		if err := store.CheckID(host, "host"); err != nil {
			return nil, err
		}
		s.and("nh.host_id = " + s.arg(string(host)))
	}
	s.knownNetworks(a)
	return b.networks(ctx, a, "networks", "n.name, n.id", s)
}
