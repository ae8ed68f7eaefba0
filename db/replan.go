package db

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// replanEvery is how often it is looked how large the tables are.
const replanEvery = 2 * time.Second

// replanner has the connections of a pool forget their plans when a table has become four times as large, or a quarter. PostgreSQL keeps a plan
// for as long as its connection, or until the table is analysed, which may be minutes later: what was planned while a table was empty reads all
// of it when it is full.
type replanner struct {
	looked atomic.Int64 // when somebody last looked, in nanoseconds of the Unix time
	sizes  atomic.Pointer[string]
	age    atomic.Int64 // how often the sizes have become others
}

// magnitudes are the tables' sizes to a power of four, in blocks. It waits for nobody who has locked one of them.
const magnitudes = `WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '20ms', true))
	SELECT string_agg(ceil(log(4, 1 + pg_relation_size(c.oid) / 8192))::text, ',' ORDER BY c.oid) FROM patience, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'r' AND n.nspname = ANY (current_schemas(false))`

// prepare is for a connection that is about to be used; false: it is broken.
func (r *replanner) prepare(ctx context.Context, conn *pgx.Conn) (bool, error) {
	now, looked := time.Now().UnixNano(), r.looked.Load()
	if now-looked >= int64(replanEvery) && r.looked.CompareAndSwap(looked, now) {
		var sizes *string // NULL: no tables yet
		err := conn.QueryRow(ctx, magnitudes).Scan(&sizes)
		if _, refused := errors.AsType[*pgconn.PgError](err); err != nil && !refused || conn.IsClosed() {
			return false, ctx.Err()
		}
		if err == nil {
			if was := r.sizes.Swap(sizes); was != nil && sizes != nil && *was != *sizes {
				r.age.Add(1)
			}
		} // else they are looked at the next time: nobody's work waits for that
	}
	const planned = "quantix planned"
	data, age := conn.PgConn().CustomData(), r.age.Load()
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
