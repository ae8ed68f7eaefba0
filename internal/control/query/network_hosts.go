package query

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/drift"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// maxHostsNamed is the maximum number of hosts listed by name for a network.
const maxHostsNamed = 6

// networkStatusGroup counts a network's host statuses with equal state. It also has the forwarding modes and subnets
// that these hosts report.
type networkStatusGroup struct {
	policy.NetworkHealthGroup
	forwards, subnets []string
}

// countNetworkStatuses returns the total number of host statuses in the groups.
func countNetworkStatuses(sums []networkStatusGroup) (n int) {
	for _, s := range sums {
		n += s.Hosts
	}
	return n
}

func equalNetworkStatusGroups(a, b []networkStatusGroup) bool {
	return reflect.DeepEqual(networkHealth(a), networkHealth(b))
}

func networkHealth(sums []networkStatusGroup) fleet.NetworkHealth {
	var groups []policy.NetworkHealthGroup
	var forwards, subnets []string
	for _, x := range sums {
		groups, forwards, subnets = append(groups, x.NetworkHealthGroup), append(forwards, x.forwards...), append(subnets, x.subnets...)
	}
	health := policy.NetworkHealth(groups)
	health.Forwards, health.Subnets = slices.Compact(slices.Sorted(slices.Values(forwards))), slices.Compact(slices.Sorted(slices.Values(subnets)))
	return health
}

// groupNetworkStatuses groups and counts the host statuses of networks in PostgreSQL. Pages read the result from the
// cache networkSums.
func (b *Queries) groupNetworkStatuses(ctx context.Context, of []fleet.NetworkID) (map[fleet.NetworkID][]networkStatusGroup, error) {
	var s statementBuilder
	s.whereObjects(networkColumn, store.ToStrings(of))
	sums := map[fleet.NetworkID][]networkStatusGroup{}
	_, err := collectRows(ctx, b, `SELECT x.object_id, x.said, x.fresh, x.faulty, sum(x.hosts)::bigint, (array_agg(DISTINCT x.forward) FILTER (WHERE x.said <> ''))[1:8], (array_agg(DISTINCT x.subnets))[1:8]
		FROM (SELECT a.object_id, COALESCE(a.said, '') AS said, `+reportsFreshSQL+` AS fresh, a.faulty, COALESCE(a.forward, '') AS forward, a.subnets, count(*) AS hosts
			FROM assignments a LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.whereClause()+` GROUP BY 1, 2, 3, 4, 5, 6) x GROUP BY 1, 2, 3, 4`, &s, func(row pgx.CollectableRow) (none struct{}, err error) {
		var network fleet.NetworkID
		var x networkStatusGroup
		var reported fleet.NetworkState
		var fresh, faulty bool
		var subnets []*string
		err = row.Scan(&network, &reported, &fresh, &faulty, &x.Hosts, &x.forwards, &subnets)
		x.State, x.Active = fleet.DeriveNetworkState(reported, faulty, fresh), reported == fleet.NetworkActive
		for _, list := range subnets {
			if list != nil {
				var cidrs []string
				_ = json.Unmarshal([]byte(*list), &cidrs) // the agent's report was validated when it was stored
				x.subnets = append(x.subnets, cidrs...)
			}
		}
		sums[network] = append(sums[network], x)
		return none, err
	})
	return sums, err
}

// addNetworkHealth fills in the health of the networks.
func (b *Queries) addNetworkHealth(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	ids := make([]fleet.NetworkID, len(views))
	for i, v := range views {
		ids[i] = v.ID
	}
	sums, err := b.networkSums.getTotals(ctx, ids...)
	if err != nil {
		return err
	}
	drifted, err := b.driftedHosts(ctx, a, networkColumn, store.ToStrings(ids))
	for i := range views {
		views[i].Health = networkHealth(sums[views[i].ID])
		views[i].Health.Drifted = drifted[string(views[i].ID)]
	}
	return err
}

// addHostsOfSmallNetworks fills in the host statuses of networks with at most maxHostsNamed hosts, sorted by host name.
func (b *Queries) addHostsOfSmallNetworks(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	at := map[fleet.NetworkID]*fleet.NetworkView{}
	ids := []string{}
	for i := range views {
		if v := &views[i]; v.Health.Hosts <= maxHostsNamed {
			at[v.ID] = v
			ids = append(ids, string(v.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var s statementBuilder
	s.addCondition("a.network_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	statuses, err := b.readNetworkStatuses(ctx, s)
	slices.SortFunc(statuses, func(x, y fleet.NetworkHost) int { return cmp.Compare(x.HostName, y.HostName) })
	for _, c := range statuses {
		if v := at[c.NetworkID]; len(v.Hosts) < maxHostsNamed {
			v.Hosts = append(v.Hosts, redactNetworkHost(a, c))
		}
	}
	return err
}

// networkColumn is the column of assignments (alias a) with the network's ID.
const networkColumn = "a.network_id"

type networkStatusKind = statusKind[fleet.NetworkID, networkStatusGroup, fleet.NetworkHost]

func newNetworkStatuses(b *Queries) networkStatusKind {
	return networkStatusKind{
		b: b, typ: fleet.TypeNetwork, column: networkColumn, countOf: countNetworkStatuses, ranksSQL: networkRanksSQL, read: b.readNetworkStatuses,
		groupsOf: func(ctx context.Context, id fleet.NetworkID) ([]networkStatusGroup, error) {
			return b.networkSums.getTotal(ctx, id)
		},
		isFaulty: func(g networkStatusGroup) bool {
			return g.State != fleet.NetworkUnknown && g.State.Severity() != fleet.SeverityOK
		},
		keyOf: func(h fleet.NetworkHost) hostStatusKey { return hostStatusKey{string(h.NetworkID), h.HostID} },
		orders: sortOrdersByRank(func(h fleet.NetworkHost) int { return hostStatusRank(h.State.Severity(), false) },
			func(h fleet.NetworkHost) (string, fleet.HostID) { return h.HostName, h.HostID }),
	}
}

// NetworkHosts returns one page of a network's host statuses. Those that need an administrator come first; otherwise
// they are sorted by host name.
func (b *Queries) NetworkHosts(ctx context.Context, a fleet.Actor, id fleet.NetworkID, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
	page, err := b.networkStatuses.listStatuses(ctx, a, id, q, func() error {
		_, err := b.NetworkBrief(ctx, a, id)
		return err
	})
	if err == nil {
		err = b.addAffectedVMs(ctx, id, page.Items)
	}
	if err == nil {
		err = fillHistory(ctx, b, fleet.TypeNetwork, string(id), page.Items, networkHistory)
	}
	return page, err
}

// networkStateCombinations lists every combination of the values that determine a network's state on a host: the
// reported state (empty without a report), whether it is faulty, and whether the report is fresh.
var networkStateCombinations = func() (all []struct {
	reported      fleet.NetworkState
	faulty, fresh bool
},
) {
	for _, reported := range []fleet.NetworkState{"", fleet.NetworkActive, fleet.NetworkInactive} {
		for _, faulty := range []bool{false, true} {
			for _, fresh := range []bool{false, true} {
				all = append(all, struct {
					reported      fleet.NetworkState
					faulty, fresh bool
				}{reported, faulty, fresh})
			}
		}
	}
	return all
}()

// networkRanksSQL returns a SQL table with the rank of each networkStateCombination whose severity matches the filter
// terms in tones. It also contains the ON condition that joins the table with host statuses (alias x). It needs no
// groups.
func networkRanksSQL(s *statementBuilder, _ []networkStatusGroup, tones []filter.Term) string {
	reported, faulty, fresh, rank := []string{}, []bool{}, []bool{}, []int32{}
	for _, x := range networkStateCombinations {
		if tone := fleet.DeriveNetworkState(x.reported, x.faulty, x.fresh).Severity(); matchesSeverity(tones, tone) {
			reported, faulty, fresh, rank = append(reported, string(x.reported)), append(faulty, x.faulty), append(fresh, x.fresh), append(rank, int32(hostStatusRank(tone, false)))
		}
	}
	return "unnest(" + s.addKeyArg(reported) + "::text[], " + s.addKeyArg(faulty) + "::boolean[], " + s.addKeyArg(fresh) + "::boolean[], " + s.addKeyArg(rank) +
		"::integer[]) AS g (said, faulty, fresh, rank) ON g.said = x.said AND g.faulty = x.faulty AND g.fresh = x.fresh"
}

// ListNetworksInFull works like ListNetworks, but each network has the first page of its host statuses, as in
// GetNetwork.
func (b *Queries) ListNetworksInFull(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
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
	statuses, err := b.networkStatuses.firstStatuses(ctx, ids, nil)
	for _, h := range statuses {
		at[h.NetworkID].Hosts = append(at[h.NetworkID].Hosts, redactNetworkHost(a, h))
	}
	return page, err
}

// networkHosts returns one page of a network's statuses on its hosts. On hosts where the network has failed, a status
// includes the number of VMs with NICs on the network.
func (b *Queries) networkHosts(ctx context.Context, id fleet.NetworkID, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
	sums, err := b.networkSums.getTotal(ctx, id)
	if err != nil {
		return fleet.Page[fleet.NetworkHost]{}, err
	}
	page, err := b.networkStatuses.statusPage(ctx, id, sums, q)
	if err == nil {
		err = b.addAffectedVMs(ctx, id, page.Items)
	}
	return page, err
}

// addAffectedVMs fills in the number of VMs with a NIC on the network, in the statuses of hosts where the network has
// failed.
func (b *Queries) addAffectedVMs(ctx context.Context, id fleet.NetworkID, statuses []fleet.NetworkHost) error {
	params := db.CountOnNetworkParams{NetworkID: string(id)}
	for _, h := range statuses {
		if h.State == fleet.NetworkFailed || h.State == fleet.NetworkInactive {
			params.Hosts = append(params.Hosts, string(h.HostID))
		}
	}
	if len(params.Hosts) == 0 {
		return nil
	}
	rows, err := b.store.CountOnNetwork(ctx, params)
	for _, r := range rows {
		k := slices.IndexFunc(statuses, func(h fleet.NetworkHost) bool { return h.HostID == r.HostID })
		statuses[k].VMs = int(r.Vms)
	}
	return store.UserError(err)
}

// NetworkHost returns the status of a network on one host.
func (b *Queries) NetworkHost(ctx context.Context, a fleet.Actor, id fleet.NetworkID, host fleet.HostID) (fleet.NetworkHost, error) {
	return b.networkStatuses.statusOnHost(ctx, a, id, host)
}

// readNetworkStatuses reads the host statuses (alias a) of networks that s selects, in no order. They contain the
// hosts' reports without DHCP leases.
func (b *Queries) readNetworkStatuses(ctx context.Context, s statementBuilder) ([]fleet.NetworkHost, error) {
	return collectRows(ctx, b, `SELECT a.network_id, a.host_id, h.name, a.status - 'leases', a.ignored_drift, s.looked_at, s.fresh_for, a.asked = 'assign', a.asked = 'release', now()
		FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.whereClause(), &s, func(x pgx.CollectableRow) (h fleet.NetworkHost, err error) {
		var now time.Time
		var looked *time.Time
		var freshFor *time.Duration
		var ignored []fleet.Drift
		err = x.Scan(&h.NetworkID, &h.HostID, &h.HostName, &h.Status, &ignored, &looked, &freshFor, &h.Assigned, &h.Releasing, &now)
		if h.Status != nil {
			h.Status.Drift = drift.MarkIgnored(h.Status.Drift, ignored)
		}
		h.SeenAt = fleet.NewReportTime(looked, freshFor)
		h.State = h.StateAt(now)
		return h, err
	})
}
