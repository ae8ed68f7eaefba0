package browse

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// hostsNamed is up to how many hosts of a network a list names.
const hostsNamed = 6

// addNetworkHealth fills in what PostgreSQL adds up over the networks' hosts.
func (b *Browse) addNetworkHealth(ctx context.Context, views []fleet.NetworkView) error {
	var s statement
	s.ofObjects(fleet.NounNetwork, idsOf(views))
	type sum struct {
		network fleet.NetworkID
		policy.NetworkGroup
		forwards, subnets []string
	}
	sums, err := collect(ctx, b, `SELECT x.object_id, x.said, x.fresh, x.faulty, sum(x.hosts)::bigint, (array_agg(DISTINCT x.forward) FILTER (WHERE x.said <> ''))[1:8], (array_agg(DISTINCT x.subnets))[1:8]
		FROM (SELECT a.object_id, COALESCE(a.said, '') AS said, `+fresh+` AS fresh, a.faulty, COALESCE(a.forward, '') AS forward, a.subnets, count(*) AS hosts
			FROM assignments a LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.conditions()+` GROUP BY 1, 2, 3, 4, 5, 6) x GROUP BY 1, 2, 3, 4`, &s, func(row pgx.CollectableRow) (x sum, err error) {
		var said fleet.NetworkState
		var fresh, faulty bool
		var subnets []*string
		err = row.Scan(&x.network, &said, &fresh, &faulty, &x.Hosts, &x.forwards, &subnets)
		x.State, x.Active = fleet.NetworkStateOf(said, faulty, fresh), said == fleet.NetworkActive
		for _, list := range subnets {
			if list != nil {
				var each []string
				_ = json.Unmarshal([]byte(*list), &each) // as the agent's report was read
				x.subnets = append(x.subnets, each...)
			}
		}
		return x, err
	})
	for i := range views {
		v := &views[i]
		var groups []policy.NetworkGroup
		var forwards, subnets []string
		for _, x := range sums {
			if x.network == v.ID {
				groups, forwards, subnets = append(groups, x.NetworkGroup), append(forwards, x.forwards...), append(subnets, x.subnets...)
			}
		}
		v.Health = policy.NetworkHealth(groups)
		v.Health.Forwards, v.Health.Subnets = slices.Compact(slices.Sorted(slices.Values(forwards))), slices.Compact(slices.Sorted(slices.Values(subnets)))
	}
	return err
}

func idsOf(views []fleet.NetworkView) []string {
	ids := make([]string, len(views))
	for i, v := range views {
		ids[i] = string(v.ID)
	}
	return ids
}

// addFewHosts fills in the hosts of networks that few have, by name.
func (b *Browse) addFewHosts(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	at := map[fleet.NetworkID]*fleet.NetworkView{}
	ids := []string{}
	for i := range views {
		if v := &views[i]; v.Health.Hosts <= hostsNamed {
			at[v.ID] = v
			ids = append(ids, string(v.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var s statement
	s.and("a.network_id = ANY (" + s.key(ids) + "::text[])")
	cells, err := b.networkCells(ctx, s)
	slices.SortFunc(cells, func(x, y fleet.NetworkHost) int { return cmp.Compare(x.HostName, y.HostName) })
	for _, c := range cells {
		if v := at[c.NetworkID]; len(v.Hosts) < hostsNamed {
			v.Hosts = append(v.Hosts, networkHostFor(a, c))
		}
	}
	return err
}

var networkHostOrders = rankedBy(func(h fleet.NetworkHost) int { return cellRank(h.State.Tone(), false) },
	func(h fleet.NetworkHost) (string, fleet.HostID) { return h.HostName, h.HostID })

// NetworkHosts returns one page of a network's matrix: the cells that want a person first, then by the host's name.
func (b *Browse) NetworkHosts(ctx context.Context, a fleet.Actor, id fleet.NetworkID, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	page, err := b.networkHosts(ctx, id, q)
	if err == nil && len(page.Items) == 0 {
		_, err = b.NetworkBrief(ctx, a, id) // there may be no such network
	}
	return page, err
}

// networkStates are all that a cell can say: what its host said (empty: nothing), whether that is an error, and whether it is believed.
var networkStates = func() (all []struct {
	said          fleet.NetworkState
	faulty, fresh bool
},
) {
	for _, said := range []fleet.NetworkState{"", fleet.NetworkActive, fleet.NetworkInactive} {
		for _, faulty := range []bool{false, true} {
			for _, fresh := range []bool{false, true} {
				all = append(all, struct {
					said          fleet.NetworkState
					faulty, fresh bool
				}{said, faulty, fresh})
			}
		}
	}
	return all
}()

// networkRanks is a table of the states that fit the tones, each with its cells' place in the matrix, and how cells x are joined with it.
func networkRanks(s *statement, tones []fleet.Term) string {
	said, faulty, fresh, rank := []string{}, []bool{}, []bool{}, []int32{}
	for _, x := range networkStates {
		if tone := fleet.NetworkStateOf(x.said, x.faulty, x.fresh).Tone(); toned(tones, tone) {
			said, faulty, fresh, rank = append(said, string(x.said)), append(faulty, x.faulty), append(fresh, x.fresh), append(rank, int32(cellRank(tone, false)))
		}
	}
	return "unnest(" + s.key(said) + "::text[], " + s.key(faulty) + "::boolean[], " + s.key(fresh) + "::boolean[], " + s.key(rank) +
		"::integer[]) AS g (said, faulty, fresh, rank) ON g.said = x.said AND g.faulty = x.faulty AND g.fresh = x.fresh"
}

// ListNetworksInFull is ListNetworks, each network with the first of its hosts, as GetNetwork tells them.
func (b *Browse) ListNetworksInFull(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	page, err := b.ListNetworks(ctx, a, q)
	at := map[fleet.NetworkID]*fleet.NetworkView{}
	var ids []string
	for i := range page.Items {
		if n := &page.Items[i]; len(n.Hosts) < n.Health.Hosts {
			at[n.ID] = n
			ids = append(ids, string(n.ID))
		}
	}
	if err != nil || len(ids) == 0 {
		return page, err
	}
	var s statement
	s.ofObjects(fleet.NounNetwork, ids)
	place, of, err := b.firstCells(ctx, &s, func(s *statement) string { return networkRanks(s, nil) })
	if err != nil {
		return page, err
	}
	told, err := b.networkCells(ctx, of)
	slices.SortFunc(told, func(x, y fleet.NetworkHost) int {
		return place[cellAt{string(x.NetworkID), x.HostID}] - place[cellAt{string(y.NetworkID), y.HostID}]
	})
	for _, h := range told {
		at[h.NetworkID].Hosts = append(at[h.NetworkID].Hosts, networkHostFor(a, h))
	}
	return page, err
}

func (b *Browse) networkHosts(ctx context.Context, id fleet.NetworkID, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
	q.Limit = cmp.Or(q.Limit, fleet.CellsTold)
	p, err := networkHostOrders.page(q, "worst")
	if err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	var s, page statement
	s.ofObjects(fleet.NounNetwork, []string{string(id)})
	tones, err := s.cellTerms(q.Filter)
	if err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	page.args, page.varies, page.searches = s.args, s.varies, s.searches
	ranks := networkRanks(&page, tones)
	ids, err := b.cellPage(ctx, &page, s.conditions(), ranks, len(tones) > 0, p.apply)
	if err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	var of statement
	of.and("a.network_id = " + of.key(string(id)) + " AND a.host_id = ANY (" + of.key(ids) + "::text[])")
	cells, err := b.networkCells(ctx, of)
	slices.SortFunc(cells, func(x, y fleet.NetworkHost) int {
		return cmp.Compare(slices.Index(ids, string(x.HostID)), slices.Index(ids, string(y.HostID)))
	})
	return p.cut(cells), err
}

// networkCells reads a few cells a of networks with the hosts' own words, in no order.
func (b *Browse) networkCells(ctx context.Context, s statement) ([]fleet.NetworkHost, error) {
	return collect(ctx, b, `SELECT a.network_id, a.host_id, h.name, a.status, s.looked_at, now()
		FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.conditions(), &s, func(x pgx.CollectableRow) (h fleet.NetworkHost, err error) {
		var now time.Time
		err = x.Scan(&h.NetworkID, &h.HostID, &h.HostName, &h.Status, &h.SeenAt, &now)
		h.State = h.StateAt(now)
		return h, err
	})
}
