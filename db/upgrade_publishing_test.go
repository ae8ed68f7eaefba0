package db_test

import (
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade publishes to each project what its VMs and defaults use, and nothing else. Grants of networks stay.
func TestUpgradePublishesUsedPoolsAndNetworks(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 102); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO users (id, name, role, password_hash) VALUES ('ann', 'ann', '', '')`,
		`INSERT INTO pools (id, name, spec) SELECT p, p, '{"kind":"dir","path":"/srv"}' FROM unnest('{fast,slow,default,unused}'::text[]) p`,
		`INSERT INTO networks (id, name, kind) SELECT n, n, CASE n WHEN 'br0' THEN 'bridge' ELSE 'libvirt' END FROM unnest('{nat,lan,br0,public,unused}'::text[]) n`,
		`INSERT INTO projects (id, name, default_pool_id, default_network_id) VALUES ('vms', 'vms', NULL, NULL), ('members', 'members', 'default', 'lan'), ('empty', 'empty', 'default', 'lan'), ('odd', 'odd', 'fast', NULL)`,
		`INSERT INTO project_members (project_id, user_id, role) VALUES ('members', 'ann', 'member')`,
		`INSERT INTO network_grants (network_id, project_id) VALUES ('br0', 'vms'), ('br0', 'empty'), ('public', NULL)`,
		`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES
			('a', 'vms', 'h', 'a', '{"cpus":1,"memoryMiB":1,"disks":[{"poolId":"fast","volume":"a"},{"poolId":"slow","volume":"b"},{"poolId":"gone","volume":"c"}],"nics":[{"networkId":"nat","mac":"1"},{"networkId":"br0","mac":"2"},{"networkId":"public","mac":"3"}]}'),
			('b', 'vms', 'h', 'b', '{"cpus":1,"memoryMiB":1,"disks":[{"poolId":"fast","volume":"d"}],"nics":[{"networkId":"nat","mac":"4"}]}'),
			('c', 'odd', 'h', 'c', '{"cpus":1,"memoryMiB":1,"disks":null}'), ('d', 'odd', 'h', 'd', '{"cpus":1,"memoryMiB":1}')`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(pool_id || ' ' || COALESCE(project_id, '*'), ', ' ORDER BY pool_id, project_id) FROM pool_grants`:          "default members, fast odd, fast vms, slow vms",
		`SELECT string_agg(network_id || ' ' || COALESCE(project_id, '*'), ', ' ORDER BY network_id, project_id) FROM network_grants`: "br0 empty, br0 vms, lan members, nat vms, public *",
	} {
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
