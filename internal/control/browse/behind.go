package browse

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// mostBehind is of how many cells it is told at once what stands behind them: a page of the matrix.
const mostBehind = 25

// tellBehind adds to the first cells of a pool that are not healthy what a fault there touches. A VM whose deletion was asked for still has its disks.
func (b *Browse) tellBehind(ctx context.Context, id fleet.PoolID, cells []fleet.PoolHost) error {
	at := map[fleet.HostID]*fleet.PoolBehind{}
	var hosts []string
	for i := range cells {
		if c := &cells[i]; c.Tone != fleet.ToneOK && len(hosts) < mostBehind {
			c.Behind = &fleet.PoolBehind{}
			at[c.HostID], hosts = c.Behind, append(hosts, string(c.HostID))
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	var s statement
	s.and("v.host_id = ANY (" + s.key(hosts) + "::text[])")
	s.and(s.holds(holdsDisk, []string{string(id)}))
	_, err := collect(ctx, b, `SELECT v.host_id, count(*), count(*) FILTER (WHERE v.status->>'power' = 'running'),
		sum((SELECT count(*) FROM jsonb_array_elements(v.spec->'disks') d WHERE d->>'poolId' = `+s.arg(string(id))+`))::bigint
		FROM vms v`+s.conditions()+` GROUP BY 1`, &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var host fleet.HostID
		var n fleet.PoolBehind
		err = x.Scan(&host, &n.VMs, &n.Running, &n.Disks)
		if cell := at[host]; cell != nil {
			*cell = n
		}
		return none, err
	})
	return err
}
