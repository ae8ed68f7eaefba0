package web_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queryRecorder is a pgx tracer that records the queries of a portal.
type queryRecorder struct {
	mu      sync.Mutex
	queries []recordedQuery
}

type recordedQuery struct {
	sql  string
	args []any
}

func (l *queryRecorder) record(sql string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries = append(l.queries, recordedQuery{sql, args})
}

func (l *queryRecorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.record(q.SQL, q.Args)
	return ctx
}

func (l *queryRecorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *queryRecorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *queryRecorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	l.record(q.SQL, q.Args)
}

func (l *queryRecorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// cachedCountQuery matches queries for cached counts, which a page runs only if the cache is stale.
var cachedCountQuery = regexp.MustCompile(`^-- name: (CountedVMs|CountFound|HostsQuiet) `)

// takeQueries returns the recorded queries since the last call, except transaction statements and queries for cached
// counts.
func (l *queryRecorder) takeQueries() []recordedQuery {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []recordedQuery
	for _, q := range l.queries {
		if word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(q.sql)), " "); word != "BEGIN" && word != "COMMIT" && word != "ROLLBACK" && word != "SET" && !cachedCountQuery.MatchString(q.sql) {
			out = append(out, q)
		}
	}
	l.queries = nil
	return out
}

// queryCost is the database work for a page: statements, returned rows, scanned rows, read blocks and returned bytes.
// worst is the statement that scanned the most rows (worstN).
type queryCost struct {
	statements, rows, scannedRows, blocks, bytes int
	worst                                        string
	worstN                                       int
}

// planNode is one node of EXPLAIN ANALYZE's query plan.
type planNode struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Hit     int     `json:"Shared Hit Blocks"`
	Read    int     `json:"Shared Read Blocks"`
	Plans   []planNode
}

func (s planNode) visited() int {
	n := 0
	if strings.HasSuffix(s.Type, "Scan") && !strings.HasPrefix(s.Type, "CTE") && s.Type != "Subquery Scan" && s.Type != "Function Scan" {
		n = int((s.Rows + s.Removed + s.Recheck) * s.Loops)
	}
	for _, p := range s.Plans {
		n += p.visited()
	}
	return n
}

// explainCost runs the recorded queries again with EXPLAIN ANALYZE and returns the sum of their costs.
func explainCost(t *testing.T, pool *pgxpool.Pool, asked []recordedQuery) queryCost {
	t.Helper()
	var all queryCost
	for _, q := range asked {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+q.sql, q.args...).Scan(&text); err != nil {
			t.Fatalf("%v: %s", err, q.sql)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		var roots []struct{ Plan planNode }
		if err := json.Unmarshal(text, &roots); err != nil {
			t.Fatal(err)
		}
		plan := roots[0].Plan
		all.statements++
		all.rows += int(plan.Rows)
		visited := plan.visited()
		all.scannedRows += visited
		all.blocks += plan.Hit + plan.Read
		if visited > all.worstN {
			all.worst, all.worstN = q.sql, visited
		}
	}
	return all
}
