package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
)

// queryRecorder records the statements that its connections send.
type queryRecorder struct {
	mu         sync.Mutex
	statements []pgx.TraceQueryStartData
}

func (r *queryRecorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, q)
	return ctx
}

func (r *queryRecorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *queryRecorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		r.TraceQueryStart(ctx, nil, pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Arguments})
	}
	return ctx
}

func (r *queryRecorder) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (r *queryRecorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// recordedControl returns another Control on the database at url, and the recorder of its statements.
func recordedControl(t *testing.T, url string) (*control.Control, *queryRecorder) {
	t.Helper()
	r := &queryRecorder{}
	return control.New(r.openPool(t, url, 0), control.Options{}), r
}

// openPool returns a pool of at most conns connections (0: pgx's default) whose statements are recorded.
func (r *queryRecorder) openPool(t *testing.T, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = r
	if conns > 0 {
		cfg.MaxConns = conns
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// statementsOnTable calls do and returns those of its statements that contain the text table.
func (r *queryRecorder) statementsOnTable(t *testing.T, table string, do func() error) []pgx.TraceQueryStartData {
	t.Helper()
	r.statements = nil
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(r.statements, func(q pgx.TraceQueryStartData) bool { return !strings.Contains(q.SQL, table) })
}

// explainStatements calls do and returns PostgreSQL's plans of those of its statements that contain the text table,
// with their actual arguments.
func (r *queryRecorder) explainStatements(t *testing.T, pool *pgxpool.Pool, table string, do func() error) string {
	t.Helper()
	var plans []string
	for _, q := range r.statementsOnTable(t, table, do) {
		rows, err := pool.Query(t.Context(), "EXPLAIN "+q.SQL, q.Args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, strings.Join(lines, "\n"))
	}
	return strings.Join(plans, "\n\n")
}

// countVisitedRows calls do, explains its statements, and returns the number of rows of vms that their scans read.
func (r *queryRecorder) countVisitedRows(t *testing.T, pool *pgxpool.Pool, do func() error) (rows int, plans string) {
	t.Helper()
	var all []string
	for _, q := range r.statementsOnTable(t, "vms v", do) {
		var text []byte
		if err := pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+q.SQL, q.Args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var roots []struct{ Plan planNode }
		if err := json.Unmarshal(text, &roots); err != nil {
			t.Fatal(err)
		}
		rows += roots[0].Plan.visitedRows()
		all = append(all, string(text))
	}
	return rows, strings.Join(all, "\n")
}

// planNode is one step of an executed plan.
type planNode struct {
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Plans    []planNode
}

func (n planNode) visitedRows() int {
	rows := 0
	if n.Relation == "vms" || strings.HasPrefix(n.Index, "vms_") {
		rows = int((n.Rows + n.Removed) * n.Loops)
	}
	for _, p := range n.Plans {
		rows += p.visitedRows()
	}
	return rows
}

// explainPrepared runs a prepared statement of the connection and rolls back. read is the number of 8 KiB blocks that
// the statement read.
func (r *hostFixture) explainPrepared(name, args string) (read int, plan string) {
	r.t.Helper()
	prepared := queryValue[string](r, `SELECT name FROM pg_prepared_statements WHERE statement LIKE '-- name: ' || $1 || ' %'`, name)
	undone := errors.New("undone")
	err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(r.t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			return err
		}
		if err := tx.QueryRow(r.t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "`+prepared+`" (`+args+`)`, pgx.QueryExecModeSimpleProtocol).Scan(&plan); err != nil {
			return err
		}
		return undone
	})
	if !errors.Is(err, undone) {
		r.t.Fatal(err)
	}
	return blocksInPlan(r.t, plan), plan
}

// blocksInPlan returns the number of 8 KiB blocks that an executed plan read.
func blocksInPlan(t *testing.T, plan string) int {
	t.Helper()
	var roots []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &roots); err != nil {
		t.Fatal(err)
	}
	return roots[0].Plan.Hit + roots[0].Plan.Read
}
