package control_test

import (
	"slices"
	"strconv"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// The audit log has one partition per month. Partitions of expired months are dropped. A line without a partition for
// its month goes to the default partition.
func TestAuditPartitionsFollowRetention(t *testing.T) {
	r := newHostFixture(t)
	keep := func(months int) {
		t.Helper()
		if err := control.New(r.pool, control.Options{AuditMonths: months}).RotateAuditPartitions(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	months := func() []string {
		t.Helper()
		return queryValue[[]string](r, `SELECT array_agg(c.relname ORDER BY c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'audit'::regclass`)
	}
	month := func(away int) string {
		return queryValue[string](r, `SELECT 'audit_' || to_char(audit_month($1) AT TIME ZONE 'UTC', 'YYYY_MM')`, away)
	}
	if got, want := months(), []string{month(1), month(2), month(3), "audit_before", "audit_rest"}; !slices.Equal(got, want) {
		t.Fatalf("a new portal has %v, want %v", got, want)
	}
	// Make the log look like that of a portal that has run for three years.
	r.execSQL(`DROP TABLE audit_before`)
	for away := -36; away <= 0; away++ {
		r.execSQL(`SELECT make_audit($1)`, away)
		r.execSQL(`INSERT INTO audit (at, actor, action, subject) VALUES (audit_month($1), 'ann', $2, ''), (audit_month($1 + 1) - interval '1 ms', 'ann', $2, '')`, away, strconv.Itoa(away))
	}
	// The default partition receives the rows of months without a partition.
	r.execSQL(`INSERT INTO audit (at, actor, action, subject) VALUES (audit_month(-40), 'ann', 'lost long ago', ''), (audit_month(5), 'ann', 'ahead', '')`)
	keep(24)
	for action, want := range map[string]int{"lost long ago": 0, "-36": 0, "-25": 0, "-24": 2, "-1": 2, "0": 2, "ahead": 1} {
		if n := queryValue[int](r, `SELECT count(*) FROM audit WHERE action = $1`, action); n != want {
			t.Errorf("%d lines of %q, want %d", n, action, want)
		}
	}
	keep(24) // a second run must change nothing
	if got := len(months()); got != 25+3+1 {
		t.Errorf("%d tables: %v", got, months())
	}
	for _, part := range []string{month(-1), "audit_rest"} {
		if _, err := r.pool.Exec(t.Context(), `TRUNCATE `+part); err == nil {
			t.Errorf("%s can be emptied", part)
		}
		if _, err := r.pool.Exec(t.Context(), `UPDATE `+part+` SET actor = 'bob'`); err == nil {
			t.Errorf("%s can be changed", part)
		}
	}
	// The partition of a new month is added even if the default partition already has rows of that month. These rows
	// stay in the default partition.
	r.execSQL(`DROP TABLE ` + month(2))
	r.execSQL(`INSERT INTO audit (at, actor, action, subject) VALUES (audit_month(2), 'ann', 'early', '')`)
	keep(24)
	if n := queryValue[int](r, `SELECT count(*) FROM audit_rest WHERE action = 'early'`); n != 1 {
		t.Errorf("%d early lines are where they were", n)
	}
}

// The sweep deletes all expired rows in one run, not one batch per run.
func TestSweepDeletesAllExpiredRows(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, state, created_by, created_at, ended_at)
		SELECT born(now() - interval '31 days') || '-7000-8000-' || lpad(n::text, 12, '0'), 'vm.start', '', '', 'done', 'ann', now() - interval '31 days', now() - interval '31 days' FROM generate_series(1, 12000) n`)
	r.execSQL(`INSERT INTO jobs (id, host_id, kind, subject, generation, state, ended_at) SELECT 'old-' || n, $1, 'console.open', 'vm:x', 1, 'done', now() - interval '2 hours' FROM generate_series(1, 6000) n`, r.agent.HostID)
	young := testkit.TaskWithJob{Host: r.agent.HostID, Kind: fleet.VMStart, Subject: "vm:x"}.Add(t, r.pool)
	if err := r.DeleteExpiredRows(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM jobs)`); n != 2 {
		t.Errorf("%d rows are left, want the task %s and its job", n, young)
	}
}
