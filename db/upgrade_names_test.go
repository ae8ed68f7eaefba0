package db_test

import (
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade renames stored kinds of jobs and tasks, and fields of specs, statuses and job arguments. It does not
// change audit lines.
func TestUpgradeRenamesStoredJobKindsAndJSONFields(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 80); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO pools (id, name, spec) VALUES ('pool', 'pool', '{"kind":"dir","path":"/srv/vm"}')`,
		`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation) VALUES ('a', 'p', 'h', 'a',
			'{"cpus":1,"memoryMiB":1024,"power":"running","memory":{"floorMiB":512}}', '{"power":"running","heldBack":[{"field":"nics","what":"NIC"}]}', 1),
			('b', 'p', 'h', 'b', '{"cpus":1,"memoryMiB":1024,"power":"stopped"}', '{"power":"stopped"}', 1)`,
		`INSERT INTO tasks (id, kind, subject, subject_name, created_by, state) SELECT i, k, 'vm:a', 'a', 'mia', 'queued' FROM (VALUES ('1', 'vm.move'), ('2', 'vm.leave'), ('3', 'vm.putback'), ('4', 'vm.start')) AS v (i, k)`,
		`INSERT INTO jobs (id, task_id, host_id, kind, subject, generation, args) SELECT i, i, 'h', k, 'vm:a', 1, args::jsonb
			FROM (VALUES ('1', 'vm.move', '{"move":{}}'), ('2', 'vm.leave', '{"leave":{"to":"h2"}}'), ('3', 'vm.putback', '{}'), ('4', 'vm.start', '{}')) AS v (i, k, args)`,
		`INSERT INTO audit (actor, address, action, subject, name, detail) SELECT 'mia', '', k, 'vm:a', 'a', '' FROM unnest('{vm.move,vm.leave,vm.putback,vm.takeover,vm.guard,vm.start}'::text[]) k`,
		`INSERT INTO assignments (noun, object_id, host_id, asked, status) VALUES ('pool', 'pool', 'h', 'assign', '{"promisedBytes":7,"cards":{"total":2,"used":1}}')`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(kind, ' ' ORDER BY id) FROM jobs`:                                                    "vm.disk.move vm.migrate vm.reapply vm.start",
		`SELECT string_agg(kind, ' ' ORDER BY id) FROM tasks`:                                                   "vm.disk.move vm.migrate vm.reapply vm.start",
		`SELECT string_agg(action, ' ' ORDER BY action) FROM audit`:                                             "vm.guard vm.leave vm.move vm.putback vm.start vm.takeover",
		`SELECT args::text FROM jobs WHERE id = '2'`:                                                            `{"migrate": {"to": "h2"}}`,
		`SELECT string_agg(COALESCE(spec->'memory', 'null')::text, ' ' ORDER BY id) FROM vms`:                   `{"minMiB": 512} null`,
		`SELECT string_agg((status - 'power')::text, ' ' ORDER BY id) FROM vms`:                                 `{"pendingUnplug": [{"what": "NIC", "field": "nics"}]} {}`,
		`SELECT provisioned_bytes || ' ' || (status - 'active')::text FROM assignments`:                         `7 {"nics": {"used": 1, "total": 2}, "provisionedBytes": 7}`,
		`SELECT count(*)::text FROM pg_indexes WHERE indexname IN ('jobs_of_disk_moves', 'jobs_of_migrations')`: "2",
	} {
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
