package browse

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PoolGrid returns a page of hosts, as ListHosts lists them, and a page of pools, as ListPools does, with how each is on each.
func (b *Browse) PoolGrid(ctx context.Context, a fleet.Actor, hosts, pools fleet.Query) (g fleet.PoolGrid, err error) {
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
	g.Cells, err = b.gridCells(ctx, hostIDs, poolIDs)
	return g, err
}

func (b *Browse) gridCells(ctx context.Context, hosts []fleet.HostID, pools []fleet.PoolID) (map[fleet.PoolOn]fleet.GridCell, error) {
	cells := map[fleet.PoolOn]fleet.GridCell{}
	if len(hosts) == 0 || len(pools) == 0 {
		return cells, nil
	}
	var s statement
	s.and("a.noun = 'pool' AND a.object_id = ANY (" + s.key(store.Texts(pools)) + "::text[]) AND a.host_id = ANY (" + s.key(store.Texts(hosts)) + "::text[])")
	_, err := collect(ctx, b, `SELECT `+keySQL+`, a.asked = 'release'`+cellsFrom+s.conditions(), &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var at fleet.PoolOn
		var said fleet.PoolState
		var fresh bool
		var k policy.PoolKey
		var c fleet.GridCell
		err = x.Scan(&at.Pool, &at.Host, &said, &fresh, &k.UsedPercent, &k.Starved, &k.ByOthers, &k.Faulty, &c.Leaving)
		k.State = fleet.PoolStateOf(said, fresh)
		c.State, c.Tone, c.UsedPercent = k.State, k.Tone(), k.UsedPercent
		cells[at] = c
		return none, err
	})
	return cells, err
}
