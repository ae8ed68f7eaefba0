package db_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"quantix/db"
	"quantix/internal/testkit"
)

// openSchema creates a database with the schema of an older release and runs the statements in it.
func openSchema(t *testing.T, version int64, statements ...string) (*sql.DB, string) {
	t.Helper()
	url := testkit.EmptyDatabaseURL(t)
	conn, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	old, err := goose.NewProvider(goose.DialectPostgres, conn, os.DirFS("migration"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn, url
}

// The upgrade to the table assignments preserves the hosts of pools and networks, and the network of each NIC.
func TestUpgradeTurnsPoolsAndNetworksIntoAssignments(t *testing.T) {
	t.Parallel()
	conn, url := openSchema(t, 14,
		`INSERT INTO hosts (id, name) VALUES ('h', 'h'), ('i', 'i')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO pools (id, name, spec, deleted_at) VALUES ('fast', 'fast', '{}', NULL), ('old', 'old', '{}', now())`,
		`INSERT INTO pool_hosts (pool_id, host_id, assigned, status, observed_generation, report_seq, reported_at)
			VALUES ('fast', 'h', true, '{"state":"active"}', 1, 7, now()), ('fast', 'i', true, NULL, 0, 0, NULL), ('old', 'h', false, NULL, 0, 0, NULL)`,
		`INSERT INTO networks (id, name, kind) VALUES ('lan', 'lan', 'libvirt'), ('br', 'lan', 'bridge')`,
		`INSERT INTO network_hosts (network_id, host_id, status, report_seq) VALUES ('lan', 'h', '{"active":true,"forward":"bridge"}', 9)`,
		`INSERT INTO vms (id, project_id, host_id, name, generation, spec) VALUES
			('v', 'p', 'h', 'v', 4, '{"cpus":1,"memoryMiB":1,"nics":[{"bridge":"lan","mac":"2"},{"network":"lan","mac":"1"},{"network":"gone","mac":"3"}]}'),
			('w', 'p', 'h', 'w', 1, '{"cpus":1,"memoryMiB":1,"nics":null}'), ('x', 'p', 'h', 'x', 1, '{"cpus":1,"memoryMiB":1,"nics":[]}'), ('y', 'p', 'h', 'y', 1, '{"cpus":1,"memoryMiB":1}')`)
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(concat_ws(' ', noun, object_id, host_id, '[' || asked || ']', status, observed_generation, report_seq), '; ' ORDER BY noun, object_id, host_id) FROM assignments`: `net lan h [] {"active": true, "forward": "bridge"} 0 9; pool fast h [assign] {"state": "active"} 1 7; pool fast i [assign] 0 0; pool old h [release] 0 0`,
		`SELECT string_agg(n.kind || ' ' || n.name || ' ' || (c->>'mac') || CASE WHEN c ?| ARRAY['network', 'bridge'] THEN ' named' ELSE '' END, ', ' ORDER BY i)
			FROM vms v, jsonb_array_elements(v.spec->'nics') WITH ORDINALITY AS x (c, i) LEFT JOIN networks n ON n.id = c->>'networkId' WHERE v.id = 'v'`: "bridge lan 2, libvirt lan 1, libvirt gone 3",
		`SELECT string_agg(concat(generation, spec->'nics'), ' ' ORDER BY id) FROM vms WHERE id > 'v'`: "1null 1[] 1",
		`SELECT generation::text FROM vms WHERE id = 'v'`:                                              "4",
	} {
		var got string
		if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s\ngives %q %v\nwant  %q", query, got, err, want)
		}
	}
}

// Deleting a pool or host deletes its assignments, and unknown objects cannot be assigned.
func TestAssignmentsAreDeletedWithPoolOrHost(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec := func(sql string) error { _, err := pool.Exec(t.Context(), sql); return err }
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h'), ('i', 'i')`,
		`INSERT INTO pools (id, name, spec, deleted_at) VALUES ('fast', 'fast', '{}', NULL), ('old', 'old', '{}', now())`,
		`INSERT INTO networks (id, name, kind) VALUES ('lan', 'lan', 'libvirt')`,
		`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', 'fast', 'h', 'assign'), ('pool', 'fast', 'i', 'assign'), ('pool', 'old', 'h', 'release'), ('net', 'lan', 'h', '')`,
	} {
		if err := exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	left := func(when, want string) {
		t.Helper()
		var got string
		err := pool.QueryRow(t.Context(), `SELECT concat((SELECT string_agg(noun || ' ' || object_id || ' ' || host_id, ', ' ORDER BY noun, object_id, host_id) FROM assignments),
			' of ', (SELECT string_agg(id, ' ' ORDER BY id) FROM pools))`).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", when, got, err, want)
		}
	}
	for _, sql := range []string{
		`INSERT INTO assignments (noun, object_id, host_id) VALUES ('pool', 'lan', 'h')`,
		`INSERT INTO assignments (noun, object_id, host_id) VALUES ('image', 'fast', 'h')`,
		`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('net', 'lan', 'i', 'perhaps')`,
	} {
		if exec(sql) == nil {
			t.Errorf("%s is accepted", sql)
		}
	}
	left("at first", "net lan h, pool fast h, pool fast i, pool old h of fast old")
	if err := exec(`DELETE FROM pools WHERE id = 'fast'`); err != nil {
		t.Error(err)
	}
	left("without the pool", "net lan h, pool old h of old")
	if err := exec(`DELETE FROM hosts WHERE id = 'h'`); err != nil {
		t.Error(err)
	}
	left("without the host", " of ")
}
