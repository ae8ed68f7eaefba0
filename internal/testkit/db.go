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
	maxConns    = 10  // a pool of one test
	serverConns = 300 // all tests of a process that run at once
)

// server is the one PostgreSQL of this test process, started by the first test that asks for a database.
var server struct {
	once    sync.Once
	err     error
	dir     string
	lock    *os.File // on the directory
	pg      *pglocal.Server
	admin   *pgxpool.Pool // on the maintenance database: makes and drops the tests' databases
	counter atomic.Int64
}

// DB returns a pool on a fresh, migrated database, which is gone when the test ends. The package needs a TestMain that calls Main.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := db.Open(t.Context(), URL(t), maxConns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL makes a fresh, migrated database, which is dropped when the test ends, and returns its address.
func URL(t testing.TB) string {
	t.Helper()
	return clone(t, template)
}

// EmptyURL is URL without the migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return clone(t, "template1")
}

func clone(t testing.TB, from string) string {
	t.Helper()
	server.once.Do(func() { server.err = startServer() })
	if server.err != nil {
		t.Fatal(server.err)
	}
	name := fmt.Sprintf("test_%d", server.counter.Add(1))
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, from) // which is a tenth of the work: the log has nothing of it
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
	if server.dir, server.lock, err = scratch(); err != nil {
		return err
	}
	// The database's own user must be able to reach its files.
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
	return db.Migrate(ctx, databaseURL(template))
}

func databaseURL(name string) string {
	u, err := url.Parse(server.pg.URL())
	if err != nil {
		panic(err) // the server's own URL
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
