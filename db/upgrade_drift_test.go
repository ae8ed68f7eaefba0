package db_test

import (
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade ignores no drift, so VMs with drift need attention as before. The drift of a security group, a text, is
// no drift of a pool or network.
func TestUpgradeKeepsDriftThatNobodyIgnores(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 83); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO pools (id, name, spec) VALUES ('pool', 'pool', '{"kind":"dir","path":"/srv/vm"}')`,
		`INSERT INTO security_groups (id, name, spec) VALUES ('web', 'web', '{}')`,
		`INSERT INTO vms (id, project_id, host_id, name, spec, status, generation, observed_generation)
			SELECT v.id, 'p', 'h', v.id, '{"cpus":1,"memoryMiB":1024,"power":"stopped"}', v.status::jsonb, 1, 1
			FROM (VALUES ('drifted', '{"power":"stopped","drift":[{"field":"cpus","applied":"1 vCPU","actual":"2 vCPUs"}]}'), ('plain', '{"power":"stopped"}')) AS v (id, status)`,
		`INSERT INTO assignments (noun, object_id, host_id, asked, status) VALUES ('pool', 'pool', 'h', 'assign', '{"state":"active"}'), ('secgroup', 'web', 'h', 'assign', '{"drift":"edited"}')`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	const (
		vms         = `SELECT string_agg(concat_ws(' ', id, drifted, attention, ignored_drift), '; ' ORDER BY id) FROM vms`
		assignments = `SELECT string_agg(concat_ws(' ', object_id, changed, drifted, ignored_drift), '; ' ORDER BY object_id) FROM assignments`
	)
	want := func(query, want string) {
		t.Helper()
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	want(vms, `drifted t t []; plain f f []`)
	want(assignments, `pool f f []; web f f []`)
	for _, sql := range []string{
		`UPDATE vms SET ignored_drift = '[{"field":"cpus","applied":"1 vCPU","actual":"2 vCPUs"}]' WHERE id = 'drifted'`,
		`UPDATE assignments SET status = '{"state":"active","drift":[{"field":"path","actual":"/srv/b"}]}' WHERE object_id = 'pool'`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	want(`SELECT concat_ws(' ', drifted, attention) FROM vms WHERE id = 'drifted'`, `f f`)
	want(assignments, `pool t t []; web f f []`)
}
