package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/pglocal"
	"quantix/internal/testkit"
)

// durable is this process's only PostgreSQL that flushes to disk as a portal's PostgreSQL does. It starts when a
// benchmark first needs it.
var durable struct {
	once  sync.Once
	err   error
	dir   string
	pg    *pglocal.Server
	admin *pgxpool.Pool
	count int
	fleet string // the template database for fleetURL; empty: not created yet
}

func startDurable() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if durable.dir, err = os.MkdirTemp("", "quantix-bench-"); err != nil {
		return err
	}
	// PostgreSQL runs as another user, which must be able to enter the directory.
	if err := os.Chmod(durable.dir, 0o711); err != nil {
		return err
	}
	key := filepath.Join(durable.dir, "secrets.key")
	if _, err := auth.OpenVault(key, true); err != nil {
		return err
	}
	if err := os.Setenv(secretsKeyVar, key); err != nil { // server processes inherit the variable
		return err
	}
	durable.pg, err = pglocal.Start(ctx, pglocal.Options{Dir: durable.dir, DieWithParent: true})
	if err != nil {
		return err
	}
	durable.admin, err = db.Open(ctx, durable.pg.URL(), 2)
	return err
}

func stopDurable() error {
	if durable.dir == "" {
		return nil
	}
	if durable.admin != nil {
		durable.admin.Close()
	}
	var err error
	if durable.pg != nil {
		err = durable.pg.Stop(context.Background())
	}
	return errors.Join(err, os.RemoveAll(durable.dir))
}

// durableURL returns the URL of a new database on durable. It is a copy of the database template; if template is empty,
// it is empty and migrated.
func durableURL(b *testing.B, template string) string {
	b.Helper()
	durable.once.Do(func() { durable.err = startDurable() })
	if durable.err != nil {
		b.Fatal(durable.err)
	}
	durable.count++
	name := fmt.Sprintf("bench_%d", durable.count)
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template + " STRATEGY file_copy"
	}
	if _, err := durable.admin.Exec(b.Context(), sql); err != nil {
		b.Fatal(err)
	}
	u, err := url.Parse(durable.pg.URL())
	if err != nil {
		b.Fatal(err)
	}
	u.Path = "/" + name
	if template == "" {
		if err := db.Migrate(b.Context(), u.String()); err != nil {
			b.Fatal(err)
		}
	}
	return u.String()
}

// newFilledDatabase returns the URL of a new database that contains a fleet. Commits do not wait for the disk while the
// database is filled. A checkpoint at the end flushes everything.
func newFilledDatabase(b *testing.B, hosts, vms int, more ...string) string {
	b.Helper()
	began := time.Now()
	defer func() {
		b.Logf("a fleet of %d hosts and %d VMs created in %s", hosts, vms, time.Since(began).Round(time.Second))
	}()
	at := durableURL(b, "")
	conf, err := pgxpool.ParseConfig(at)
	if err != nil {
		b.Fatal(err)
	}
	conf.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(b.Context(), conf)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	testkit.Seed(b, pool, hosts, vms)
	for _, sql := range append(more, "VACUUM ANALYZE", "CHECKPOINT") {
		if _, err := pool.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	return at
}

const (
	fleetHosts = 2500
	fleetVMs   = 100_000
)

// fleetMore adds a third pool on all hosts, 50 users and a million finished tasks. Triggers are disabled for the tasks,
// because nobody needs the notifications.
var fleetMore = []string{
	`INSERT INTO pools (id, name, spec) VALUES ('00000000-0000-7000-8000-000000002003', 'nvme', '{"kind":"dir","path":"/srv/nvme","shared":true}')`,
	`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT 'pool', '00000000-0000-7000-8000-000000002003', h.id, 'assign',
			'{"state":"active","capacityBytes":1099511627776,"usedBytes":0,"availableBytes":1099511627776,"mountPath":"/srv/nvme"}', 1, now() FROM hosts h`,
	`INSERT INTO users (id, name, role, password_hash) SELECT 'u' || i, 'person-' || i, CASE i WHEN 1 THEN 'admin' ELSE 'viewer' END, '' FROM generate_series(1, 50) i`,
	`SET session_replication_role = replica`,
	`INSERT INTO tasks (id, kind, subject, subject_name, project_id, host_id, generation, state, attempt, progress, created_by, user_id, created_at, started_at, ended_at)
		SELECT '00000000-0000-7000-9000-' || lpad(i::text, 12, '0'), (ARRAY['vm.apply', 'vm.start', 'vm.shutdown', 'vm.reboot'])[1 + i % 4],
			'vm:00000000-0000-7000-8000-' || lpad((1000001 + i % 100000)::text, 12, '0'), 'vm-' || lpad((1 + i % 100000)::text, 6, '0'),
			'00000000-0000-7000-8000-' || lpad((1000 + i % 10)::text, 12, '0'), '00000000-0000-7000-8000-' || lpad((1 + i % 2500)::text, 12, '0'),
			1, 'done', 1, 100, 'person-' || 1 + i % 40, 'u' || 1 + i % 40, now() - (1000000 - i) * interval '80 ms', now() - (1000000 - i) * interval '80 ms', now() - (1000000 - i) * interval '80 ms'
		FROM generate_series(1, 1000000) i`,
	`RESET session_replication_role`,
}

// fleetURL returns the URL of a copy of a database with 2,500 hosts, 40 VMs on each, three shared pools on all hosts
// and a million tasks. The original is filled only once.
func fleetURL(b *testing.B) string {
	b.Helper()
	if durable.fleet == "" {
		durable.fleet = databaseOf(b, newFilledDatabase(b, fleetHosts, fleetVMs, fleetMore...))
	}
	return durableURL(b, durable.fleet)
}

func databaseOf(b *testing.B, at string) string {
	b.Helper()
	u, err := url.Parse(at)
	if err != nil {
		b.Fatal(err)
	}
	return u.Path[1:]
}

// postgresDir returns a new directory that PostgreSQL's own system user can enter.
func postgresDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "quantix-bench-")
	if err == nil {
		b.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}
