package control_test

import (
	"strings"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// Periodic queries read blocks in proportion to their result, not to the number of hosts and VMs. They do so even with
// plans that PostgreSQL made while the tables were empty.
func TestPeriodicQueriesReadFewBlocks(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 1) // one connection, so that plans made first are used later
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &hostFixture{Control: control.New(pool, control.Options{}), t: t, pool: pool}
	for _, table := range []string{"jobs", "tasks", "host_sessions", "vms", "found_vms", "assignments"} {
		r.execSQL(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`) // autovacuum would invalidate the plans
		r.execSQL(`ANALYZE ` + table)
	}
	some := []fleet.VMID{"none"}
	for range 7 { // more often than PostgreSQL tries custom plans
		if _, err := r.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		if err := r.CountChangedVMs(t.Context(), fleet.SystemActor, some, []fleet.HostID{"none"}); err != nil {
			t.Fatal(err)
		}
		if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	const vms = 20_000
	fillTables(t, r, 500, vms)
	// The arguments name 100 VMs and 20 hosts.
	ids := queryValue[string](r, `SELECT array_agg(id)::text FROM (SELECT id FROM vms WHERE name LIKE 'vm-0001%') v`)
	hosts := queryValue[string](r, `SELECT array_agg(id)::text FROM (SELECT id FROM hosts ORDER BY name LIMIT 20) h`)
	for name, x := range map[string]struct {
		args string
		most int
	}{
		"CountedVMs":        {`'', 200`, 400},
		"CountedVMsNamed":   {`'` + ids + `'`, 600},
		"CountDiscoveredOn": {`'` + hosts + `'`, 450}, // 100 discovered VMs, each with a look for a VM of Quantix with its ID
		"DriftedVMs":        {`'1 hour'`, 1500},       // 100 drifted VMs, each with its host and jobs
	} {
		read, plan := r.explainPrepared(name, x.args)
		if read > x.most {
			t.Errorf("%s reads %d blocks, more than %d:\n%s", name, read, x.most, plan)
		}
	}
	r.execSQL(`ANALYZE vms`) // now with plans made for full tables
	r.execSQL(`ANALYZE jobs`)
	r.execSQL(`ANALYZE host_sessions`)
	if read, plan := r.explainPrepared("DriftedVMs", `'1 hour'`); read > 1500 {
		t.Errorf("DriftedVMs reads %d blocks when it is planned of a full table:\n%s", read, plan)
	}
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`) // so that the time passed so far does not matter
	before := queryValue[int](r, `SELECT count(*)::int FROM jobs WHERE state = 'queued'`)
	if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*)::int FROM jobs WHERE state = 'queued'`) - before; n != 100 {
		t.Errorf("%d of 100 VMs that drifted are queued", n)
	}
}

// fillTables adds hosts, VMs and jobs without invalidating the connection's plans. 100 VMs have drifted, and each tenth
// VM has an ended job.
func fillTables(t *testing.T, r *hostFixture, hosts, vms int) {
	t.Helper()
	r.execSQL(`SET session_replication_role = replica`) // without notifications, which would invalidate no plan but take time
	r.execSQL(`INSERT INTO projects (id, name) VALUES ('p', 'p')`)
	r.execSQL(`INSERT INTO hosts (id, name) SELECT 'host-' || n, 'host-' || n FROM generate_series(1, $1) n`, hosts)
	r.execSQL(`INSERT INTO host_sessions (host_id, seen_at, last_look) SELECT id, now(), now() FROM hosts`)
	r.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation, heard, attention)
		SELECT gen_random_uuid()::text, 'p', 'host-' || n % $1 + 1, 'vm-' || lpad(n::text, 6, '0'), '{"power":"running","cpus":1,"memoryMiB":512}', '{"power":"running"}', 1, 'running', false
		FROM generate_series(1, $2) n`, hosts, vms)
	r.execSQL(`INSERT INTO found_vms (host_id, id, name, status) SELECT id, 'found-' || n, 'f', '{}' FROM hosts, generate_series(1, 5) n`)
	r.execSQL(`INSERT INTO jobs (id, task_id, host_id, kind, subject, generation, state) SELECT id, id, host_id, 'vm.apply', 'vm:' || id, 1, 'done' FROM vms WHERE name LIKE '%0'`)
	r.execSQL(`UPDATE vms SET generation = 2 WHERE name LIKE 'vm-0002__'`)
	r.execSQL(`RESET session_replication_role`)
	if n := queryValue[int](r, `SELECT count(*)::int FROM vms WHERE generation = 2`); n != 100 {
		t.Fatalf("%d VMs have drifted", n)
	}
}

// A report that changes only unindexed status columns updates no index (a HOT update).
func TestStatusReportUpdatesNoIndex(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	testkit.Seed(t, pool, 5, 200)
	for _, c := range []struct {
		set string
		hot bool
	}{ // rolled-back rows still occupy their pages, so the larger updates come first
		{`status = jsonb_set(status, '{startedAt}', '"2026-01-01T00:00:00Z"'), report_seq = report_seq + 1`, true},
		{`status = jsonb_set(status, '{power}', '"crashed"')`, false}, // the phase changes
	} {
		set, hot := c.set, c.hot
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const counts = `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'vms'`
		var all, onPage, allBefore, onPageBefore int
		if err := tx.QueryRow(t.Context(), counts).Scan(&allBefore, &onPageBefore); err != nil {
			t.Fatal(err)
		}
		// Update one row in ten. The fillfactor leaves a fifth of each page free, so each new row version fits on the page of
		// the old one.
		_, err = tx.Exec(t.Context(), `UPDATE vms SET `+set+` WHERE name LIKE '%5' AND heard = 'running'`)
		if err == nil {
			err = tx.QueryRow(t.Context(), counts).Scan(&all, &onPage)
		}
		if err != nil {
			t.Fatal(err)
		}
		all, onPage = all-allBefore, onPage-onPageBefore
		if all != 20 || hot && onPage != all || !hot && onPage > 0 {
			t.Errorf("%s: of %d updates %d are on their page alone", strings.SplitN(set, ",", 2)[0], all, onPage)
		}
		tx.Rollback(t.Context())
	}
}
