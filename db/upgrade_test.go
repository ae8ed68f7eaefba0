package db_test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

func queryText(t *testing.T, conn *sql.DB, query string) (answer string) {
	t.Helper()
	if err := conn.QueryRowContext(context.WithoutCancel(t.Context()), query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// The data of a portal with schema 14 is the same after the upgrade. internal/bench measures the upgrade's duration.
func TestUpgradeFromSchema14KeepsData(t *testing.T) {
	t.Parallel()
	url := testkit.Schema14DatabaseURL(t, os.DirFS("migration"), 5, 2000)
	_, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	same := map[string]string{
		"VMs":          `SELECT count(*) || ' ' || md5(string_agg(concat_ws(' ', id, project_id, host_id, name, labels, generation, observed_generation, report_seq, deleted_at, status), ',' ORDER BY id)) FROM vms`,
		"derived":      `SELECT md5(string_agg(concat_ws(' ', id, ordered, heard, attention, cpus, memory_mib), ',' ORDER BY id)) FROM vms`,
		"disks":        `SELECT count(*) || ' ' || md5(string_agg(concat_ws(' ', vm_id, pool_id, volume), ',' ORDER BY vm_id, pool_id, volume)) FROM made_disks`,
		"search words": `SELECT count(*) || ' ' || md5(string_agg(concat_ws(' ', vm_id, kind, word), ',' ORDER BY vm_id, kind, word)) FROM vm_words`,
		"audit":        `SELECT count(*)::text FROM audit`,
		"found":        `SELECT count(*)::text FROM found_vms`,
	}
	before := map[string]string{}
	for what, query := range same {
		before[what] = queryText(t, conn, query)
	}
	phases := queryText(t, conn, `SELECT string_agg(heard || ' ' || n, ', ' ORDER BY heard) FROM (SELECT heard, count(*) AS n FROM vms GROUP BY heard) p`)
	if want := "crashed 20, creating 20, deleting 20, failed 20, missing 20, needsRestart 40, paused 20, running 1360, starting 2, stopped 458, updating 20"; phases != want {
		t.Fatalf("before the upgrade: %s\nwant %s", phases, want)
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for what, query := range same {
		if now := queryText(t, conn, query); now != before[what] {
			t.Errorf("%s: %s, was %s", what, now, before[what])
		}
	}
	for query, want := range map[string]string{
		`SELECT count(*)::text FROM vms WHERE heard <> vm_phase(ordered, status, generation, observed_generation, deleted_at, true)`:                  "0",
		`SELECT count(*)::text FROM vms WHERE attention <> vm_in_need(ordered, spec, status, generation, observed_generation, deleted_at, elsewhere)`: "0",
		`SELECT count(*) || ' ' || count(DISTINCT mark) FROM vms v JOIN vm_marks m ON m.vm_id = v.id`:                                                 "2000 2000",
	} {
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// Migration 18 turns phases into plain columns without rewriting the table. Triggers keep the columns up to date.
func TestUpgradeRewritesNoVMRowsForPhaseColumns(t *testing.T) {
	t.Parallel()
	url := testkit.Schema14DatabaseURL(t, os.DirFS("migration"), 2, 100)
	p, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := p.UpTo(t.Context(), 17); err != nil {
		t.Fatal(err)
	}
	const file, rows = `SELECT pg_relation_filenode('vms')::text`, `SELECT md5(string_agg(xmin::text || ctid::text, ',' ORDER BY id)) FROM vms`
	before := queryText(t, conn, file) + queryText(t, conn, rows)
	if _, err := p.UpTo(t.Context(), 18); err != nil {
		t.Fatal(err)
	}
	if now := queryText(t, conn, file) + queryText(t, conn, rows); now != before {
		t.Error("the migration rewrote the VMs")
	}
	if now := queryText(t, conn, `UPDATE vms SET status = status || '{"power": "crashed"}' WHERE id = 'vm1' RETURNING heard || ' ' || attention`); now != "crashed true" {
		t.Errorf("a crashed VM has %s", now)
	}
	if now := queryText(t, conn, `UPDATE vms SET heard = 'odd', attention = false WHERE id = 'vm1' RETURNING heard || ' ' || attention`); now != "crashed true" {
		t.Errorf("after a direct update: %s", now)
	}
	// A change of the phase function needs one UPDATE of the affected VMs.
	if _, err := conn.ExecContext(t.Context(), `CREATE OR REPLACE FUNCTION vm_phase(ordered text, status jsonb, generation bigint, observed bigint, deleted_at timestamptz, fresh boolean)
		RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT CASE WHEN status->>'power' = 'crashed' THEN 'broken' ELSE 'well' END $$`); err != nil {
		t.Fatal(err)
	}
	if n := queryText(t, conn, `WITH now AS (UPDATE vms v SET heard = p.phase FROM (SELECT id, vm_phase(ordered, status, generation, observed_generation, deleted_at, true) AS phase FROM vms) p
		WHERE p.id = v.id AND v.heard <> p.phase RETURNING v.heard) SELECT string_agg(heard || ' ' || n, ', ' ORDER BY heard) FROM (SELECT heard, count(*) AS n FROM now GROUP BY heard) x`); n != "broken 2, well 98" {
		t.Errorf("after the changed function: %s", n)
	}
}
