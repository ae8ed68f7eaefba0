package db

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// replanInterval is the interval of checks of the table sizes.
const replanInterval = 2 * time.Second

// stalePlanDiscarder discards the plans of a pool's connections when a table has grown or shrunk by a factor of four.
// PostgreSQL keeps a generic plan until the connection ends or the table is analysed, which may take minutes. A plan
// made for an empty table would scan the whole table once it is full.
type stalePlanDiscarder struct {
	lastCheck   atomic.Int64 // time of the last check, in Unix nanoseconds
	tableSizes  atomic.Pointer[string]
	sizeChanges atomic.Int64 // number of changes of sizes
}

// tableSizesSQL returns the table sizes in blocks, rounded to a power of four. A lock timeout keeps locked tables from
// delaying the query.
const tableSizesSQL = `WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '20ms', true))
	SELECT string_agg(ceil(log(4, 1 + pg_relation_size(c.oid) / 8192))::text, ',' ORDER BY c.oid) FROM patience, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'r' AND n.nspname = ANY (current_schemas(false))`

// discardOutdatedPlans is called before a connection is used, and discards the connection's plans if the table sizes
// have changed. It returns false for a broken connection.
func (r *stalePlanDiscarder) discardOutdatedPlans(ctx context.Context, conn *pgx.Conn) (bool, error) {
	now, lastCheck := time.Now().UnixNano(), r.lastCheck.Load()
	if now-lastCheck >= int64(replanInterval) && r.lastCheck.CompareAndSwap(lastCheck, now) {
		var sizes *string // NULL if there are no tables yet
		err := conn.QueryRow(ctx, tableSizesSQL).Scan(&sizes)
		if _, refused := errors.AsType[*pgconn.PgError](err); err != nil && !refused || conn.IsClosed() {
			return false, ctx.Err()
		}
		if err == nil {
			if was := r.tableSizes.Swap(sizes); was != nil && sizes != nil && *was != *sizes {
				r.sizeChanges.Add(1)
			}
		} // after an error the next check tries again, without delaying the caller
	}
	const planned = "quantix planned"
	data, age := conn.PgConn().CustomData(), r.sizeChanges.Load()
	switch was, ok := data[planned].(int64); {
	case ok && was == age:
		return true, nil
	case ok:
		if _, err := conn.Exec(ctx, "DISCARD PLANS"); err != nil {
			return false, ctx.Err()
		}
	}
	data[planned] = age
	return true, nil
}
