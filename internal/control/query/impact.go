package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// maxShownImpacts is the maximum number of host statuses with affected VMs, which fills one page of the list.
const maxShownImpacts = 25

// fillPoolImpact fills in the affected VMs and disks of the first unhealthy host statuses of a pool. VMs with a
// requested deletion are included, because their disks still exist.
func (b *Queries) fillPoolImpact(ctx context.Context, id fleet.PoolID, statuses []fleet.PoolHost) error {
	at := map[fleet.HostID]*fleet.PoolImpact{}
	var hosts []string
	for i := range statuses {
		if c := &statuses[i]; c.Severity != fleet.SeverityOK && len(hosts) < maxShownImpacts {
			c.Impact = &fleet.PoolImpact{}
			at[c.HostID], hosts = c.Impact, append(hosts, string(c.HostID))
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	var s statementBuilder
	s.addCondition("v.host_id = ANY (" + s.addKeyArg(hosts) + "::text[])")
	s.addCondition(s.specContainsSQL(diskInPoolPattern, []string{string(id)}))
	_, err := collectRows(ctx, b, `SELECT v.host_id, count(*), count(*) FILTER (WHERE v.status->>'power' = 'running'),
		sum((SELECT count(*) FROM jsonb_array_elements(v.spec->'disks') d WHERE d->>'poolId' = `+s.addArg(string(id))+`))::bigint
		FROM vms v`+s.whereClause()+` GROUP BY 1`, &s, func(x pgx.CollectableRow) (none struct{}, err error) {
		var host fleet.HostID
		var n fleet.PoolImpact
		err = x.Scan(&host, &n.VMs, &n.Running, &n.Disks)
		if impact := at[host]; impact != nil {
			*impact = n
		}
		return none, err
	})
	return err
}
