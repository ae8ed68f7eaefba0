package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// storageTotalSQL adds up the capacity and used space of active pools on online hosts, each file system once. The space
// of a shared pool is the one that its first suitable host by name reports. If no file system is reported, a shared
// pool counts once per source on a storage server, or else per pool. A local pool then counts once per host.
var storageTotalSQL = `WITH shared AS MATERIALIZED (
		SELECT COALESCE(f.file_system, CASE WHEN p.spec->>'path' = '' THEN (p.spec - '{description,user,initiator}'::text[])::text ELSE p.id END) AS place,
			f.capacity_bytes, f.used_bytes
		FROM pools p CROSS JOIN LATERAL (SELECT a.file_system, a.capacity_bytes, a.used_bytes FROM hosts h
			JOIN assignments a ON a.noun = 'pool' AND a.object_id = p.id AND a.host_id = h.id JOIN host_sessions s ON s.host_id = h.id
			WHERE a.said = 'active' AND ` + reportsFreshSQL + ` ORDER BY h.name LIMIT 1) f
		WHERE p.spec->>'shared' = 'true'
	), local AS (
		SELECT COALESCE(a.file_system, a.object_id || ' ' || a.host_id) AS place, a.capacity_bytes, a.used_bytes
		FROM assignments a JOIN pools p ON p.id = a.pool_id JOIN host_sessions s ON s.host_id = a.host_id
		WHERE a.said = 'active' AND ` + reportsFreshSQL + ` AND p.spec->>'shared' IS DISTINCT FROM 'true'
	)
	SELECT ` + saturatingSumSQL("x.capacity_bytes") + `, ` + saturatingSumSQL("x.used_bytes") + ` FROM (
		SELECT max(capacity_bytes) AS capacity_bytes, max(used_bytes) AS used_bytes FROM (SELECT * FROM shared UNION ALL SELECT * FROM local) c GROUP BY place
	) x`

func (b *Queries) storageTotal(ctx context.Context) (fleet.PoolSpace, error) {
	rows, err := collectRows(ctx, b, storageTotalSQL, new(statementBuilder), func(row pgx.CollectableRow) (r fleet.PoolSpace, err error) {
		err = row.Scan(&r.CapacityBytes, &r.UsedBytes)
		return r, err
	})
	if err != nil {
		return fleet.PoolSpace{}, err
	}
	return rows[0], nil
}
