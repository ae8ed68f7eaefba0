package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/pglocal"
)

const (
	template    = "quantix_template"
	scratchName = "quantix-test-"
	startLimit  = time.Minute
	maxConns    = 10  // pool of one test
	serverConns = 300 // connections of all tests that run concurrently in one process
)

// server is the PostgreSQL of this test process. It starts when a test first needs a database.
var server struct {
	once    sync.Once
	err     error
	dir     string
	lock    *os.File // lock on dir
	pg      *pglocal.Server
	admin   *pgxpool.Pool // connected to the maintenance database, in order to create and drop test databases
	counter atomic.Int64
}

// DB returns a connection pool on a new, migrated database, which is dropped when the test ends. The tested package
// needs a TestMain that calls Main.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := db.Open(t.Context(), DatabaseURL(t), maxConns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// DatabaseURL creates a new, migrated database, which is dropped when the test ends, and returns its DatabaseURL.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	return cloneDatabase(t, template)
}

// EmptyDatabaseURL creates a new database without tables, which is dropped when the test ends, and returns its DatabaseURL.
func EmptyDatabaseURL(t testing.TB) string {
	t.Helper()
	return cloneDatabase(t, "template1")
}

func cloneDatabase(t testing.TB, from string) string {
	t.Helper()
	server.once.Do(func() { server.err = startServer() })
	if server.err != nil {
		t.Fatal(server.err)
	}
	name := fmt.Sprintf("test_%d", server.counter.Add(1))
	// STRATEGY file_copy writes no WAL and takes a tenth of the time of the default strategy.
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, from)
	if _, err := server.admin.Exec(t.Context(), sql); err != nil {
		t.Fatalf("clone the template database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		if _, err := server.admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return databaseURL(name)
}

func startServer() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var err error
	if server.dir, server.lock, err = createScratchDir(); err != nil {
		return err
	}
	// PostgreSQL runs as another user, which must be able to enter the directory.
	if err := os.Chmod(server.dir, 0o711); err != nil {
		return err
	}
	server.pg, err = pglocal.Start(ctx, pglocal.Options{
		Dir: server.dir, Unsafe: true, DieWithParent: true, MaxConnections: serverConns,
	})
	if err != nil {
		return err
	}
	if server.admin, err = db.Open(ctx, databaseURL("postgres"), 4); err != nil {
		return err
	}
	if _, err := server.admin.Exec(ctx, "CREATE DATABASE "+template); err != nil {
		return fmt.Errorf("create the template database: %w", err)
	}
	if err := db.Migrate(ctx, databaseURL(template)); err != nil {
		return err
	}
	return withoutRecycleBin(ctx, databaseURL(template))
}

// withoutRecycleBin switches the recycle bin off, as in an upgraded installation: most tests that delete VMs are about the
// deletion. Tests of the bin switch it on.
func withoutRecycleBin(ctx context.Context, url string) error {
	conn, err := db.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Exec(ctx, "UPDATE bin_settings SET days = 0 WHERE project_id IS NULL")
	return err
}

func databaseURL(name string) string {
	u, err := url.Parse(server.pg.URL())
	if err != nil {
		panic(err) // the server's own DatabaseURL is always valid
	}
	u.Path = "/" + name
	return u.String()
}

func stopServer() error {
	if server.dir == "" {
		return nil
	}
	if server.admin != nil {
		server.admin.Close()
	}
	var errs []error
	if server.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		errs = append(errs, server.pg.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(server.dir), server.lock.Close())...)
}
