package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/control/health"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/testkit"
)

// TestHealthReportRaisesAndClearsConditions follows a finding and an occurrence of a host from report to end.
func TestHealthReportRaisesAndClearsConditions(t *testing.T) {
	f := newHostFixture(t)
	failing := healthevent.Finding{Object: "disk/sda", Code: "smart-failing", Severity: fleet.AlarmCritical, Text: "The disk fails.", Values: map[string]float64{"temperature": 40}}
	xid := healthevent.Occurrence{Check: "gpu", Repeats: 2, Finding: healthevent.Finding{Object: "gpu/0", Code: "xid-79", Severity: fleet.AlarmCritical, Text: "XID 79.", Values: map[string]float64{"xid": 79}}}
	report := func(r healthevent.Report) {
		t.Helper()
		r.Instance = "run-1"
		if err := f.ReportHealth(t.Context(), f.agent, r); err != nil {
			t.Fatal(err)
		}
	}
	smart := func(findings ...healthevent.Finding) []healthevent.CheckReport {
		return []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckOK, Findings: findings}}
	}
	first := healthevent.Report{Number: 1, Checks: smart(failing), Occurrences: []healthevent.Occurrence{xid}}
	report(first)
	report(first) // the answer to the first call was lost
	if got := f.eventKinds(); !slices.Equal(got, []healthevent.Kind{healthevent.Occurred, healthevent.Raised}) {
		t.Fatalf("the events are %v", got)
	}
	report(healthevent.Report{Number: 1, Checks: []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckFailed, Reason: "no smartctl"}}})
	report(healthevent.Report{Number: 1, Checks: smart()})
	if got := f.eventKinds(); !slices.Equal(got, []healthevent.Kind{healthevent.Cleared, healthevent.Occurred, healthevent.Raised}) {
		t.Fatalf("the events are %v", got)
	}
	now, err := f.HealthOfHost(t.Context(), chief, f.agent.HostID)
	if err != nil || len(now.Conditions) != 1 || now.Conditions[0].Count != 2 || !now.Conditions[0].Occurrence || now.ReportedAt == nil {
		t.Fatalf("the health is %+v, %v", now, err)
	}
	if err := f.ResolveCondition(t.Context(), chief, f.agent.HostID, now.Conditions[0].Key()); err != nil {
		t.Fatal(err)
	}
	if err := f.ResolveCondition(t.Context(), chief, f.agent.HostID, now.Conditions[0].Key()); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a second resolution gives %v", err)
	}
	if got := f.eventKinds(); got[0] != healthevent.Resolved {
		t.Errorf("the events are %v", got)
	}
}

func (r *hostFixture) eventKinds() []healthevent.Kind {
	r.t.Helper()
	events, err := r.HostEvents(r.t.Context(), chief, r.agent.HostID, health.EventQuery{Limit: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]healthevent.Kind, len(events.Items))
	for i, e := range events.Items {
		out[i] = e.Kind
	}
	return out
}

// TestHostileAgentStoresBoundedHealth sends as much as an agent can, and checks that the host's tables stay small and
// that another host's events are stored.
func TestHostileAgentStoresBoundedHealth(t *testing.T) {
	f := newHostFixture(t)
	other := f.addHost("quiet")
	number := int64(0)
	for i := range 20 {
		r := healthevent.Report{Instance: "run"}
		for j := range healthevent.MaxOccurrences {
			r.Occurrences = append(r.Occurrences, healthevent.Occurrence{Check: "gpu", Repeats: 1, Finding: healthevent.Finding{
				Object: fmt.Sprint("gpu/", i, "/", j), Code: "xid-79", Severity: fleet.AlarmCritical, Text: strings.Repeat("x", 10_000),
			}})
		}
		for j := range healthevent.MaxChecks {
			r.Checks = append(r.Checks, healthevent.CheckReport{Check: fmt.Sprint("check-", i, "-", j), State: healthevent.CheckOK})
		}
		number += healthevent.MaxOccurrences
		r.Number = number
		if err := f.ReportHealth(t.Context(), f.agent, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.ReportHealth(t.Context(), other, healthevent.Report{Instance: "run", Number: 1, Occurrences: []healthevent.Occurrence{
		{Check: "gpu", Repeats: 1, Finding: healthevent.Finding{Object: "gpu/0", Code: "xid-48", Severity: fleet.AlarmCritical, Text: "one"}},
	}}); err != nil {
		t.Fatal(err)
	}
	count := func(table string, host fleet.HostID) (n int) {
		t.Helper()
		if err := f.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE host_id = $1", host).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// 5,120 events were sent. The burst is 2,000, and a test of a minute adds at most 1,200.
	if n := count("host_events", f.agent.HostID); n < 2000 || n > 3300 {
		t.Errorf("%d events were stored", n)
	}
	if n := count("host_conditions", f.agent.HostID); n != 500 {
		t.Errorf("%d conditions are open", n)
	}
	if n := count("host_checks", f.agent.HostID); n != 64 {
		t.Errorf("%d checks are stored", n)
	}
	if n := count("host_events", other.HostID); n != 1 {
		t.Errorf("%d events of the other host were stored", n)
	}
	page, err := f.HostEvents(t.Context(), chief, f.agent.HostID, health.EventQuery{Check: healthevent.AgentCheck})
	if err != nil || len(page.Items) == 0 || page.Items[0].Code != healthevent.EventsDropped {
		t.Errorf("the dropped events are not shown: %+v, %v", page.Items, err)
	}
}

func TestOldestEventsOfHostAreTrimmed(t *testing.T) {
	f := newHostFixture(t)
	f.execSQL(`INSERT INTO host_health (host_id, stored) VALUES ($1, 20100)`, f.agent.HostID)
	f.execSQL(`INSERT INTO host_events (host_id, at, kind, check_name, object, code, severity, text, numbers, attributes)
		SELECT $1, now(), 'occurred', 'gpu', 'gpu/0', 'xid-' || n, 'info', 'text', '{}', '{}' FROM generate_series(1, 20100) n`, f.agent.HostID)
	if err := f.DeleteOldHostEvents(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	var n, stored int
	var oldest string
	if err := f.pool.QueryRow(t.Context(), `SELECT count(*), (SELECT stored FROM host_health WHERE host_id = $1), (SELECT code FROM host_events WHERE host_id = $1 ORDER BY id LIMIT 1) FROM host_events WHERE host_id = $1`, f.agent.HostID).Scan(&n, &stored, &oldest); err != nil {
		t.Fatal(err)
	}
	if n != 20_000 || stored != n || oldest != "xid-101" {
		t.Errorf("%d events, %d counted, the oldest is %s", n, stored, oldest)
	}
}

func TestHistoryPagesInBothDirections(t *testing.T) {
	f := newHostFixture(t)
	f.execSQL(`INSERT INTO host_events (host_id, at, kind, check_name, object, code, severity, text, numbers, attributes)
		SELECT $1, now(), 'occurred', CASE WHEN n % 2 = 0 THEN 'gpu' ELSE 'smart' END, '', 'n-' || n, CASE WHEN n % 5 = 0 THEN 'critical' ELSE 'info' END, 'text', '{}', '{}' FROM generate_series(1, 25) n`, f.agent.HostID)
	read := func(q health.EventQuery) (string, health.EventPage) {
		t.Helper()
		page, err := f.HostEvents(t.Context(), chief, f.agent.HostID, q)
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, e := range page.Items {
			codes = append(codes, strings.TrimPrefix(e.Code, "n-"))
		}
		return strings.Join(codes, " "), page
	}
	got, first := read(health.EventQuery{Limit: 10})
	if got != "25 24 23 22 21 20 19 18 17 16" || first.Newer != 0 || first.Older == 0 {
		t.Errorf("the first page is %s, %+v", got, first)
	}
	got, second := read(health.EventQuery{Limit: 10, After: first.Older})
	if got != "15 14 13 12 11 10 9 8 7 6" || second.Newer == 0 {
		t.Errorf("the second page is %s", got)
	}
	if got, last := read(health.EventQuery{Limit: 10, After: second.Older}); got != "5 4 3 2 1" || last.Older != 0 {
		t.Errorf("the last page is %s", got)
	}
	if got, back := read(health.EventQuery{Limit: 10, Before: second.Newer}); got != "25 24 23 22 21 20 19 18 17 16" || back.Newer != 0 || back.Older == 0 {
		t.Errorf("the page before the second is %s", got)
	}
	if got, _ := read(health.EventQuery{Severity: fleet.AlarmCritical, Check: "gpu"}); got != "20 10" {
		t.Errorf("critical events of GPUs are %s", got)
	}
	if _, err := f.HostEvents(t.Context(), chief, f.agent.HostID, health.EventQuery{Severity: "fatal"}); fleet.CodeOf(err) != fleet.Malformed {
		t.Errorf("an unknown severity gives %v", err)
	}
}

func TestFindingCannotBeResolved(t *testing.T) {
	f := newHostFixture(t)
	held := healthevent.Finding{Object: "disk/sda", Code: "smart-failing", Severity: fleet.AlarmCritical, Text: "It fails."}
	report := healthevent.Report{Instance: "a", Checks: []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckOK, Findings: []healthevent.Finding{held}}}}
	if err := f.ReportHealth(t.Context(), f.agent, report); err != nil {
		t.Fatal(err)
	}
	key := healthevent.Key{Check: "smart", Object: held.Object, Code: held.Code}
	if err := f.ResolveCondition(t.Context(), chief, f.agent.HostID, key); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("the resolution gives %v", err)
	}
	now, err := f.HealthOfHosts(t.Context(), chief, []fleet.HostID{f.agent.HostID})
	if err != nil || now[f.agent.HostID] != (healthevent.Summary{Conditions: 1, Worst: fleet.AlarmCritical}) {
		t.Errorf("the summary is %+v, %v", now, err)
	}
	all, more, err := f.CriticalConditions(t.Context(), chief)
	if err != nil || more || len(all) != 1 || all[0].HostName == "" {
		t.Errorf("the critical conditions are %+v, %v", all, err)
	}
}

// TestHealthQueriesReadFewBlocks checks the plans of the queries of pages with 10,000 hosts. They were made while the
// tables were empty.
func TestHealthQueriesReadFewBlocks(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), testkit.DatabaseURL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &hostFixture{Control: control.New(pool, control.Options{}), t: t, pool: pool}
	for _, table := range []string{"hosts", "host_conditions"} {
		r.execSQL(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`) // autovacuum would invalidate the plans
	}
	for range 7 {
		if _, err := r.HealthOfHosts(t.Context(), chief, []fleet.HostID{"none"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.CriticalConditions(t.Context(), chief); err != nil {
			t.Fatal(err)
		}
	}
	r.execSQL(`SET session_replication_role = replica`) // without triggers
	r.execSQL(`INSERT INTO hosts (id, name) SELECT gen_random_uuid(), 'host-' || n FROM generate_series(1, 10000) n`)
	r.execSQL(`INSERT INTO host_conditions SELECT h.id, 'smart', 'disk/sd' || n, 'code', CASE WHEN n = 1 AND h.name LIKE 'host-99%' THEN 'critical' ELSE 'warning' END, 'text', '{}', '{}', now(), now(), 1, false
		FROM hosts h, generate_series(1, 3) n`)
	ids := queryValue[string](r, `SELECT array_agg(id)::text FROM (SELECT id FROM hosts ORDER BY name LIMIT 100) h`)
	for name, x := range map[string]struct {
		args string
		most int
	}{
		"HealthOfHosts":          {`'` + ids + `'`, 900},
		"CriticalHostConditions": {`11`, 700}, // 111 critical conditions, each with its host
	} {
		if read, plan := r.explainPrepared(name, x.args); read > x.most {
			t.Errorf("%s reads %d blocks, more than %d:\n%s", name, read, x.most, plan)
		}
	}
}
