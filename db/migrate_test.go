package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"quantix/db"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConcurrentMigrationsRunOnce(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := db.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	pool, err := db.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var rows int
	err = pool.QueryRow(t.Context(), "SELECT count(*) FROM goose_db_version WHERE version_id = 1").Scan(&rows)
	if err != nil || rows != 1 {
		t.Fatalf("the first migration ran %d times: %v", rows, err)
	}
}

// The upgrade fills the table vm_words for existing VMs.
func TestUpgradeFillsSearchWords(t *testing.T) {
	t.Parallel()
	conn, url := openSchema(t, 1,
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO vms (id, project_id, host_id, name, labels, spec, status) VALUES ('v', 'p', 'h', 'web', '{"env":"prod"}',
			'{"cpus":1,"memoryMiB":1,"nics":[{"mac":"52:54:00:00:00:01"}]}', '{"nics":[{"mac":"52:54:00:00:00:01","addresses":["10.0.0.5"]}]}')`)
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	var words string
	err := conn.QueryRowContext(t.Context(), `SELECT string_agg(kind || ' ' || word, ', ' ORDER BY word) FROM vm_words`).Scan(&words)
	if want := "ip 10.0.0.5, mac 52:54:00:00:00:01, label env=prod"; err != nil || words != want {
		t.Fatalf("%q %v, want %q", words, err, want)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	pool, err := db.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, true)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), url); !errors.Is(err, db.ErrNewerSchema) {
		t.Fatalf("got %v", err)
	}
}

func TestWaitForPooledConnectionEndsWithContext(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Exec(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	var limit string
	if err := held.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit); err != nil || limit != "10s" {
		t.Fatalf("statement_timeout is %q: %v", limit, err)
	}
}

// A primary that has become a standby rejects changes on connections that are still open.
func TestConnectionsAreReplacedAfterFailover(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var conns []*pgxpool.Conn
	for range 3 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	const change = "INSERT INTO pulse DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET at = now()"
	var pg *pgconn.PgError
	if _, err := pool.Exec(t.Context(), change); !errors.As(err, &pg) || pg.Code != db.SQLStateReadOnly {
		t.Fatalf("a standby accepts changes: %v", err)
	}
	for i := range 3 { // connections from before the failure are not used again
		if _, err := pool.Exec(t.Context(), change); err != nil {
			t.Errorf("change %d after the first refusal: %v", i+1, err)
		}
	}
}

// Without an error, PostgreSQL uses no index to compare texts of different collations.
func TestForeignKeyColumnsHaveCollationOfReferencedColumns(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.Query(t.Context(), `SELECT c.conrelid::regclass || '.' || a.attname FROM pg_constraint c
		JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		JOIN pg_attribute r ON r.attrelid = c.confrelid AND r.attnum = c.confkey[1]
		WHERE c.contype = 'f' AND a.attcollation <> r.attcollation`)
	if err != nil {
		t.Fatal(err)
	}
	odd, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(odd) > 0 {
		t.Fatalf("foreign keys with another collation: %v (%v)", odd, err)
	}
}
