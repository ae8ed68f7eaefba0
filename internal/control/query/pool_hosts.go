package query

import (
	"context"
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

// poolStatusGroup counts a pool's host statuses with equal policy.PoolHealthKey, reported state and freshness.
type poolStatusGroup struct {
	policy.PoolHealthGroup
	reported    fleet.PoolState
	fresh       bool
	volumes     int64 // sum over the reports
	mostVolumes int64 // largest number in one report
}

// countPoolStatuses returns the total number of host statuses in the groups.
func countPoolStatuses(groups []poolStatusGroup) (n int) {
	for _, g := range groups {
		n += g.Hosts
	}
	return n
}

// equalPoolStatusGroups reports whether both slices contain the same groups in any order.
func equalPoolStatusGroups(a, b []poolStatusGroup) bool {
	in := make(map[poolStatusGroup]bool, len(a))
	for _, g := range a {
		in[g] = true
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(g poolStatusGroup) bool { return !in[g] })
}

// groupPoolStatuses groups and counts the host statuses of these pools in PostgreSQL, without reading complete reports. Pages
// call poolStatusGroups instead, which uses the cache.
func (b *Queries) groupPoolStatuses(ctx context.Context, ids []fleet.PoolID) (map[fleet.PoolID][]poolStatusGroup, error) {
	var s statementBuilder
	s.whereObjects(poolColumn, store.ToStrings(ids))
	return b.readPoolStatusGroups(ctx, &s, reportsFreshSQL, statusesFromSQL)
}

// groupAllPoolStatuses works like groupPoolStatuses for all pools. It gets the offline hosts from its caller instead of reading agent
// sessions.
func (b *Queries) groupAllPoolStatuses(ctx context.Context, offline []fleet.HostID) (map[fleet.PoolID][]poolStatusGroup, error) {
	var s statementBuilder
	s.whereObjects(poolColumn, nil)
	return b.readPoolStatusGroups(ctx, &s, "q.host_id IS NULL", " FROM assignments a LEFT JOIN unnest("+s.addKeyArg(store.ToStrings(offline))+"::text[]) AS q (host_id) ON q.host_id = a.host_id"+joinPausedVMsSQL)
}

func (b *Queries) readPoolStatusGroups(ctx context.Context, s *statementBuilder, freshSQL, from string) (map[fleet.PoolID][]poolStatusGroup, error) {
	groups := map[fleet.PoolID][]poolStatusGroup{}
	_, err := collectRows(ctx, b, `SELECT a.object_id, COALESCE(a.said, ''), `+freshSQL+`, a.used_percent, w.vms IS NOT NULL, a.by_others, a.faulty, count(*), COALESCE(sum(a.volumes), 0), COALESCE(max(a.volumes), 0),
		`+saturatingSumSQL("a.capacity_bytes")+`, `+saturatingSumSQL("a.used_bytes")+`, `+saturatingSumSQL("a.available_bytes")+`, `+saturatingSumSQL("a.provisioned_bytes")+
		from+s.whereClause()+` GROUP BY 1, 2, 3, 4, 5, 6, 7`, s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var pool fleet.PoolID
		var g poolStatusGroup
		err = x.Scan(&pool, &g.reported, &g.fresh, &g.UsedPercent, &g.VMsPaused, &g.StoppedOutside, &g.Faulty, &g.Hosts, &g.volumes, &g.mostVolumes,
			&g.Space.CapacityBytes, &g.Space.UsedBytes, &g.Space.AvailableBytes, &g.Space.ProvisionedBytes)
		g.State = fleet.DerivePoolState(g.reported, g.fresh)
		groups[pool] = append(groups[pool], g)
		return none, err
	})
	return groups, err
}

// sharedCapacities returns the capacity of each shared pool, as reported by the first host by name that has the pool
// active. For pools on many hosts it comes from the cache.
func (b *Queries) sharedCapacities(ctx context.Context, rows []db.Pool, groups map[fleet.PoolID][]poolStatusGroup) (map[fleet.PoolID]fleet.PoolSpace, error) {
	totals, ok := b.fleetTotals.lookUpTotal(ctx, fleetTotalsKey{})
	if !ok {
		return b.readSharedCapacities(ctx, rows, groups)
	}
	rest := slices.DeleteFunc(slices.Clone(rows), func(r db.Pool) bool { return countPoolStatuses(totals.pools[r.ID]) > maxUncachedHosts })
	rooms, err := b.readSharedCapacities(ctx, rest, groups)
	for _, r := range rows {
		if countPoolStatuses(totals.pools[r.ID]) > maxUncachedHosts {
			rooms[r.ID] = totals.sharedPoolSpaces[r.ID]
		}
	}
	return rooms, err
}

// readSharedCapacities reads the capacities of shared pools that are active on some host. The query tries hosts in the
// order of their names, and usually the first one has the value.
func (b *Queries) readSharedCapacities(ctx context.Context, rows []db.Pool, groups map[fleet.PoolID][]poolStatusGroup) (map[fleet.PoolID]fleet.PoolSpace, error) {
	var ids []string
	for _, r := range rows {
		if r.Spec.Shared && slices.ContainsFunc(groups[r.ID], func(g poolStatusGroup) bool { return g.State == fleet.PoolActive }) {
			ids = append(ids, string(r.ID))
		}
	}
	rooms := map[fleet.PoolID]fleet.PoolSpace{}
	if len(ids) == 0 {
		return rooms, nil
	}
	var s statementBuilder
	_, err := collectRows(ctx, b, `SELECT p.id, f.* FROM unnest(`+s.addKeyArg(ids)+`::text[]) AS p (id) CROSS JOIN LATERAL (
		SELECT a.capacity_bytes, a.used_bytes, a.available_bytes, a.provisioned_bytes FROM hosts h
		JOIN assignments a ON a.noun = 'pool' AND a.object_id = p.id AND a.host_id = h.id JOIN host_sessions s ON s.host_id = h.id
		WHERE a.said = 'active' AND `+reportsFreshSQL+` ORDER BY h.name LIMIT 1) f`, &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var id fleet.PoolID
		var r fleet.PoolSpace
		err = x.Scan(&id, &r.CapacityBytes, &r.UsedBytes, &r.AvailableBytes, &r.ProvisionedBytes)
		rooms[id] = r
		return none, err
	})
	return rooms, err
}

func poolHealth(spec fleet.PoolSpec, groups []poolStatusGroup, first fleet.PoolSpace) fleet.PoolHealth {
	all := make([]policy.PoolHealthGroup, len(groups))
	for i, g := range groups {
		all[i] = g.PoolHealthGroup
	}
	return policy.PoolHealth(spec, all, first)
}

// ListPoolsInFull works like ListPools, but each pool has the first page of its host statuses, as in GetPool.
func (b *Queries) ListPoolsInFull(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.PoolView], error) {
	page, err := b.ListPools(ctx, a, q)
	if err != nil || len(page.Items) == 0 || !store.SeesHosts(a) {
		return page, err
	}
	at := map[fleet.PoolID]*fleet.PoolView{}
	var ids []fleet.PoolID
	for i := range page.Items {
		ids = append(ids, page.Items[i].ID)
		at[page.Items[i].ID] = &page.Items[i]
	}
	all, err := b.poolStatusGroups(ctx, ids...)
	if err != nil {
		return page, err
	}
	var groups []poolStatusGroup // distinct over all pools, because ranks depend on nothing else
	seen := map[poolStatusGroup]bool{}
	for _, id := range ids {
		for _, g := range all[id] {
			key := poolStatusGroup{PoolHealthGroup: policy.PoolHealthGroup{PoolHealthKey: g.PoolHealthKey}, reported: g.reported, fresh: g.fresh}
			if !seen[key] {
				seen[key] = true
				groups = append(groups, g)
			}
		}
	}
	statuses, err := b.poolStatuses.firstStatuses(ctx, store.ToStrings(ids), groups)
	for _, h := range statuses {
		at[h.PoolID].Hosts = append(at[h.PoolID].Hosts, h)
	}
	return page, err
}

// poolRanksSQL returns a SQL table with the rank of each group whose severity matches the filter terms in tones. It
// also contains the ON condition that joins the table with host statuses (alias x).
func poolRanksSQL(s *statementBuilder, groups []poolStatusGroup, tones []filter.Term) string {
	reported, fresh, used, starving, byOthers, faulty, rank := []string{}, []bool{}, []int32{}, []bool{}, []bool{}, []bool{}, []int32{}
	for _, g := range groups {
		if tone := g.Severity(); matchesSeverity(tones, fleet.CountedSeverity(tone)) {
			reported, fresh, used = append(reported, string(g.reported)), append(fresh, g.fresh), append(used, int32(g.UsedPercent))
			starving, byOthers, faulty = append(starving, g.VMsPaused), append(byOthers, g.StoppedOutside), append(faulty, g.Faulty)
			rank = append(rank, int32(hostStatusRank(tone, g.State == fleet.PoolInactive && g.StoppedOutside)))
		}
	}
	return "unnest(" + s.addKeyArg(reported) + "::text[], " + s.addKeyArg(fresh) + "::boolean[], " + s.addKeyArg(used) + "::integer[], " + s.addKeyArg(starving) + "::boolean[], " +
		s.addKeyArg(byOthers) + "::boolean[], " + s.addKeyArg(faulty) + "::boolean[], " + s.addKeyArg(rank) + "::integer[]) AS g (said, fresh, used, starving, by_others, faulty, rank) ON " +
		"g.said = x.said AND g.fresh = x.fresh AND g.used = x.used AND g.starving = x.starving AND g.by_others = x.by_others AND g.faulty = x.faulty"
}

func poolStatusRank(h fleet.PoolHost) int {
	return hostStatusRank(h.Severity, h.State == fleet.PoolInactive && h.Status != nil && h.Status.StoppedOutside)
}

// poolColumn is the column of assignments (alias a) with the pool's ID.
const poolColumn = "a.pool_id"

type poolStatusKind = statusKind[fleet.PoolID, poolStatusGroup, fleet.PoolHost]

func newPoolStatuses(b *Queries) poolStatusKind {
	return poolStatusKind{
		b: b, typ: fleet.TypePool, column: poolColumn, countOf: countPoolStatuses, ranksSQL: poolRanksSQL, read: b.readPoolStatuses,
		groupsOf: func(ctx context.Context, id fleet.PoolID) ([]poolStatusGroup, error) {
			groups, err := b.poolStatusGroups(ctx, id)
			return groups[id], err
		},
		isFaulty: func(g poolStatusGroup) bool { return g.fresh && g.Severity() != fleet.SeverityOK },
		keyOf:    func(h fleet.PoolHost) hostStatusKey { return hostStatusKey{string(h.PoolID), h.HostID} },
		orders:   sortOrdersByRank(poolStatusRank, func(h fleet.PoolHost) (string, fleet.HostID) { return h.HostName, h.HostID }),
	}
}

// PoolHosts returns one page of a pool's host statuses. Those that need an administrator come first; otherwise they are
// sorted by host name.
func (b *Queries) PoolHosts(ctx context.Context, a fleet.Actor, id fleet.PoolID, q fleet.Query) (fleet.Page[fleet.PoolHost], error) {
	page, err := b.poolStatuses.listStatuses(ctx, a, id, q, func() error {
		_, err := b.readPoolRow(ctx, a, id)
		return err
	})
	if err == nil {
		err = b.fillPoolImpact(ctx, id, page.Items)
	}
	if err == nil {
		err = fillHistory(ctx, b, fleet.TypePool, string(id), page.Items, poolHistory)
	}
	return page, err
}

// PoolHost returns the status of a pool on one host.
func (b *Queries) PoolHost(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.PoolHost, error) {
	return b.poolStatuses.statusOnHost(ctx, a, id, host)
}

// readPoolStatuses reads the host statuses (alias a) of pools that s selects, in no order. They contain the hosts'
// reports without volumes.
func (b *Queries) readPoolStatuses(ctx context.Context, s statementBuilder) ([]fleet.PoolHost, error) {
	return collectRows(ctx, b, `SELECT a.pool_id, a.host_id, h.name, a.asked = 'assign', s.seen_at, s.looked_at, s.fresh_for, COALESCE(s.conflict, ''),
		CASE WHEN h.status IS NOT NULL THEN s.blind_since IS NULL END, a.status - 'volumes', a.ignored_drift, COALESCE(w.vms, 0), now()
		FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
		LEFT JOIN (`+pausedVMsSQL+`) w ON w.host_id = a.host_id AND w.pool_id = a.pool_id`+s.whereClause(), &s, func(x pgx.CollectableRow) (h fleet.PoolHost, err error) {
		var seen, looked *time.Time // last contact of the agent, and the time of its report on the pool
		var freshFor *time.Duration
		var conflict string
		var connected *bool
		var now time.Time
		var ignored []fleet.Drift
		err = x.Scan(&h.PoolID, &h.HostID, &h.HostName, &h.Assigned, &seen, &looked, &freshFor, &conflict, &connected, &h.Status, &ignored, &h.PausedVMs, &now)
		if h.Status != nil {
			h.Status.Drift = drift.MarkIgnored(h.Status.Drift, ignored)
		}
		h.SeenAt = fleet.NewReportTime(looked, freshFor)
		h.HostPhase, h.State = store.HostPhase(fleet.NewReportTime(seen, freshFor), h.SeenAt, connected, conflict, now), h.StateAt(now)
		h.Severity, h.Notice = policy.PoolHostStatus(h, now)
		return h, err
	})
}
