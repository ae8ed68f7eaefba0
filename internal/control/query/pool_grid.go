package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PoolGrid returns a page of hosts as in ListHosts, a page of pools as in ListPools, and the status of each pool on
// each host.
func (b *Queries) PoolGrid(ctx context.Context, a fleet.Actor, hosts, pools fleet.Query) (g diagram.PoolGrid, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return g, err
	}
	if g.Hosts, err = b.ListHosts(ctx, a, hosts); err != nil {
		return g, err
	}
	if g.Pools, err = b.ListPools(ctx, a, pools); err != nil {
		return g, err
	}
	hostIDs, poolIDs := make([]fleet.HostID, len(g.Hosts.Items)), make([]fleet.PoolID, len(g.Pools.Items))
	for i, h := range g.Hosts.Items {
		hostIDs[i] = h.ID
	}
	for i, p := range g.Pools.Items {
		poolIDs[i] = p.ID
	}
	g.Statuses, err = b.poolGridStatuses(ctx, hostIDs, poolIDs)
	return g, err
}

// poolGridStatuses reads the status of each pool on each host. The query returns indexes into hosts and pools, which
// are shorter to transfer and parse than IDs.
func (b *Queries) poolGridStatuses(ctx context.Context, hosts []fleet.HostID, pools []fleet.PoolID) ([][]diagram.GridStatus, error) {
	statuses := make([][]diagram.GridStatus, len(hosts))
	all := make([]diagram.GridStatus, len(hosts)*len(pools))
	for i := range statuses {
		statuses[i] = all[i*len(pools) : (i+1)*len(pools)]
	}
	if len(all) == 0 {
		return statuses, nil
	}
	var s statementBuilder
	sql := `SELECT q.n::integer, r.n::integer, COALESCE(a.said, ''), ` + reportsFreshSQL + `, a.used_percent, w.vms IS NOT NULL, a.by_others, a.faulty, a.asked = 'release'
		FROM unnest(` + s.addKeyArg(store.ToStrings(hosts)) + `::text[]) WITH ORDINALITY AS q (id, n)
		LEFT JOIN host_sessions s ON s.host_id = q.id
		JOIN assignments a ON a.noun = 'pool' AND a.host_id = q.id
		JOIN unnest(` + s.addKeyArg(store.ToStrings(pools)) + `::text[]) WITH ORDINALITY AS r (id, n) ON r.id = a.object_id` + joinPausedVMsSQL
	_, err := collectRows(ctx, b, sql, &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var host, pool int32
		var reported string
		var fresh, leaving bool
		var k policy.PoolHealthKey
		err = x.Scan(&host, &pool, &reported, &fresh, &k.UsedPercent, &k.VMsPaused, &k.StoppedOutside, &k.Faulty, &leaving)
		if err == nil {
			k.State = fleet.DerivePoolState(fleet.PoolState(reported), fresh)
			statuses[host-1][pool-1] = diagram.GridStatus{State: k.State, Severity: k.Severity(), UsedPercent: k.UsedPercent, Leaving: leaving}
		}
		return none, err
	})
	return statuses, err
}
