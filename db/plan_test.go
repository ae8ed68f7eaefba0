package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/testkit"
)

const (
	plannedHosts     = 200
	plannedVMs       = 20_000 // about 3,000 blocks of 8 KiB
	maxBlocksByIndex = 300    // enough for a statement that reads a few rows by index
)

// A locked table, for example during VACUUM FULL, must not block connections that do not use it.
func TestLockedTableDoesNotBlockConnections(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	other, err := db.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `LOCK TABLE vms`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // less than the server's lock timeout
	defer cancel()
	pool, err := db.Open(ctx, url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, `SELECT 1 FROM hosts`); err != nil {
		t.Error(err)
	}
}

// plannedStatement is a statement that the server planned while the tables were empty.
type plannedStatement struct {
	name, sql string
	params    []uint32 // parameter types
	method    reflect.Method
}

// planStatement prepares the method's statement and makes the server plan it.
func planStatement(t *testing.T, pool *pgxpool.Pool, m reflect.Method) plannedStatement {
	t.Helper()
	p := plannedStatement{name: m.Name, method: m}
	p.sql, _ = p.captureArguments(t, false)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	known, err := conn.Conn().Prepare(t.Context(), p.name, p.sql)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	p.params = known.ParamOIDs
	if _, err := conn.Exec(t.Context(), `EXPLAIN EXECUTE `+callSQL(p.name, slices.Repeat([]string{"NULL"}, len(p.params))), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return p
}

// hasArgument reports whether the statement has an argument of that name.
func (p plannedStatement) hasArgument(field string) bool {
	if p.method.Type.NumIn() < 3 || p.method.Type.In(2).Kind() != reflect.Struct {
		return false
	}
	_, ok := p.method.Type.In(2).FieldByName(field)
	return ok
}

// captureArguments returns the method's SQL and arguments. Arguments that are IDs name existing objects.
func (p plannedStatement) captureArguments(t *testing.T, tenant bool) (sql string, args []any) {
	t.Helper()
	var recorder statementRecorder
	in := []reflect.Value{reflect.ValueOf(db.New(&recorder)), reflect.ValueOf(t.Context())}
	if p.method.Type.NumIn() > 2 {
		in = append(in, p.argumentValue(t, "", p.method.Type.In(2), tenant))
	}
	p.method.Func.Call(in)
	if recorder.sql == "" {
		t.Fatalf("%s runs no statement", p.name)
	}
	return recorder.sql, recorder.args
}

// checkPlan fails the test if the statement reads more blocks than its limit.
func (p plannedStatement) checkPlan(t *testing.T, pool *pgxpool.Pool, tenant bool) {
	t.Helper()
	read, plan, err := p.explain(t, pool, tenant)
	bound := maxBlocksByIndex
	if more, ok := blockLimits[p.name]; ok {
		bound = more.blocks
	}
	switch {
	case err != nil:
		t.Errorf("%s: %v", p.name, err)
	case read > bound:
		t.Errorf("%s reads %d blocks, want %d at most:\n%s", p.name, read, bound, plan)
	}
}

// explain executes the planned statement and rolls it back. read is the number of blocks of 8 KiB that it read.
func (p plannedStatement) explain(t *testing.T, pool *pgxpool.Pool, tenant bool) (read int, plan string, err error) {
	t.Helper()
	_, args := p.captureArguments(t, tenant)
	literals := literalsOf(t, p.name, p.params, args)
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE `+callSQL(p.name, literals), pgx.QueryExecModeSimpleProtocol).Scan(&plan); err != nil {
			return err
		}
		return errNotExecuted
	})
	if !errors.Is(err, errNotExecuted) {
		return 0, "", err
	}
	var roots []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &roots); err != nil {
		t.Fatal(err)
	}
	return roots[0].Plan.Hit + roots[0].Plan.Read, plan, nil
}

// literalsOf returns the arguments of a prepared statement as SQL.
func literalsOf(t *testing.T, name string, params []uint32, args []any) []string {
	t.Helper()
	literals := make([]string, len(args))
	for i, a := range args {
		text, err := pgtype.NewMap().Encode(params[i], pgx.TextFormatCode, a, nil)
		if err != nil {
			t.Fatalf("%s: argument %d: %v", name, i+1, err)
		}
		if literals[i] = "NULL"; text != nil {
			literals[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	return literals
}

func callSQL(name string, literals []string) string {
	if len(literals) == 0 {
		return `"` + name + `"`
	}
	return `"` + name + `" (` + strings.Join(literals, ", ") + ")"
}

var errNotExecuted = errors.New("undone")

// statementRecorder records a statement and returns no rows.
type statementRecorder struct {
	sql  string
	args []any
}

func (a *statementRecorder) recordStatement(sql string, args []any) { a.sql, a.args = sql, args }

func (a *statementRecorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	a.recordStatement(sql, args)
	return pgconn.CommandTag{}, errNotExecuted
}

func (a *statementRecorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	a.recordStatement(sql, args)
	return nil, errNotExecuted
}

func (a *statementRecorder) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	a.recordStatement(sql, args)
	return noRow{}
}

type noRow struct{}

func (noRow) Scan(...any) error { return errNotExecuted }

func mustRun(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
