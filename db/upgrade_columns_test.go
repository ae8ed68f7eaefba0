package db_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade fills new columns and tables for existing VMs, jobs and hosts.
func TestUpgradeFillsNewColumns(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	conn, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before, err := goose.NewProvider(goose.DialectPostgres, conn, os.DirFS("migration"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.UpTo(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO host_sessions (host_id, seen_at) VALUES ('h', '2026-01-01T00:00:00Z')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
			SELECT v.id, 'p', 'h', v.id, '{"cpus":1,"memoryMiB":1,"power":"running","disks":[{"poolId":"fast","volume":"a.qcow2"}]}', v.status::jsonb, 1
			FROM (VALUES ('new', NULL), ('gone', '{"power":"absent"}'), ('off', '{"power":"stopped"}'), ('on', '{"power":"running"}')) AS v (id, status)`,
		`INSERT INTO jobs (id, host_id, kind, subject, subject_name, generation, state, created_by)
			SELECT j.id, 'h', j.kind, 'vm:off', 'off', 1, j.state, 'x'
			FROM (VALUES ('1', 'vm.stop', 'done'), ('2', 'vm.start', 'running'), ('3', 'vm.apply', 'queued')) AS j (id, kind, state)`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(vm_id || ' ' || pool_id || ' ' || volume, ', ' ORDER BY vm_id) FROM made_disks`: "off fast a.qcow2, on fast a.qcow2",
		`SELECT string_agg(id || ' ' || heard, ', ' ORDER BY id) FROM vms`:                                 "gone missing, new creating, off starting, on running",
		`SELECT string_agg(id, ', ' ORDER BY id) FROM vms WHERE attention`:                                 "gone",
		`SELECT (looked_at = seen_at)::text FROM host_sessions`:                                            "true",
	} {
		var got string
		if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", query, got, err, want)
		}
	}
}
