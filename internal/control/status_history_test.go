package control_test

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// The history of a host status contains the reported states and, while the host was offline, unknown. An offline period
// ends with a heartbeat or with a full report.
func TestHostStatusHistoryShowsReportedAndUnknownPeriods(t *testing.T) {
	r := newHostFixture(t)
	fast := fleet.NewID[fleet.PoolID]()
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, 'fast', '{"kind": "dir", "path": "/srv/fast"}')`, fast)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'assign')`, fast, r.agent.HostID)
	day := func() fleet.StatusHistory {
		t.Helper()
		page, err := r.PoolHosts(t.Context(), chief, fast, fleet.Query{})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page, err)
		}
		_, shown, err := r.PoolMatrix(t.Context(), chief, fast, fleet.Query{})
		if err != nil || len(shown.Items) != 1 || !slices.Equal(shown.Items[0].Day, page.Items[0].Day) {
			t.Errorf("the pool's page says %v, its matrix %v (%v)", shown.Items, page.Items, err)
		}
		return page.Items[0].Day
	}
	says := func(state fleet.PoolState, words string) {
		t.Helper()
		r.reportPoolsAndNetworks([]wire.PoolReport{{ID: fast, Name: "fast", Status: fleet.PoolStatus{State: state, Error: words}}})
	}
	// before moves the recorded history back by a number of quarters of an hour.
	before := func(quarters int) {
		t.Helper()
		// Moving by 100 years first avoids collisions with rows that already have the new time.
		r.execSQL(`UPDATE cell_quarters SET quarter = quarter - interval '100 years'`)
		r.execSQL(`UPDATE cell_quarters SET quarter = quarter + interval '100 years' - $1 * interval '15 minutes'`, quarters)
		r.execSQL(`UPDATE host_silences SET since = since - $1 * interval '15 minutes', until = until - $1 * interval '15 minutes'`, quarters)
	}
	ends := func(where string, want ...fleet.DayPart) {
		t.Helper()
		got := day()
		if len(got) < len(want) {
			t.Fatalf("%s: %v, want %v at its end", where, got, want)
		}
		for i, part := range got[len(got)-len(want):] {
			// A quarter of an hour may end while the test runs, so the counts may differ by 1.
			if part.Severity != want[i].Severity || max(part.Quarters-want[i].Quarters, want[i].Quarters-part.Quarters) > 1 {
				t.Errorf("%s: %v, want %v at its end", where, got, want)
				return
			}
		}
	}
	if d := day(); d != nil {
		t.Errorf("history of a host without a report: %v", d)
	}
	says(fleet.PoolActive, "")
	ends("active", fleet.DayPart{Quarters: 95}, fleet.DayPart{Severity: fleet.SeverityOK, Quarters: 1})
	before(30)
	says(fleet.PoolFailed, "no route")
	says(fleet.PoolActive, "")
	ends("failed and healed at once", fleet.DayPart{Severity: fleet.SeverityOK, Quarters: 30}, fleet.DayPart{Severity: fleet.SeverityBad, Quarters: 1})
	before(10)
	says(fleet.PoolFailed, "no route")
	before(10)
	says(fleet.PoolActive, "degraded")
	if worst := queryValue[int](r, `SELECT worst FROM cell_quarters ORDER BY quarter DESC LIMIT 1`); worst != 3 {
		t.Errorf("the quarter of the recovery has the severity %d", worst)
	}
	says(fleet.PoolActive, "")
	says(fleet.PoolActive, "degraded")
	if worst := queryValue[int](r, `SELECT max(worst) FROM cell_quarters WHERE quarter > now() - interval '30 minutes'`); worst != 3 {
		t.Errorf("after two more changes the quarter has the severity %d", worst)
	}
	ends("failed for long, then degraded", fleet.DayPart{Severity: fleet.SeverityOK, Quarters: 9}, fleet.DayPart{Severity: fleet.SeverityBad, Quarters: 11})
	before(20)

	goOffline := func(minutes int) {
		t.Helper()
		r.execSQL(`UPDATE host_sessions SET seen_at = now() - $1 * interval '1 minute', last_look = now() - $1 * interval '1 minute'`, minutes)
	}
	goOffline(29)
	ends("silent now", fleet.DayPart{Severity: fleet.SeverityWarn, Quarters: 18}, fleet.DayPart{Severity: fleet.SeverityUnknown, Quarters: 2})
	if _, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: queryValue[string](r, `SELECT digest FROM host_sessions`)}); err != nil {
		t.Fatal(err)
	}
	before(10)
	ends("online again by a heartbeat", fleet.DayPart{Severity: fleet.SeverityUnknown, Quarters: 2}, fleet.DayPart{Severity: fleet.SeverityWarn, Quarters: 10})
	goOffline(29)
	says(fleet.PoolActive, "")
	before(4)
	ends("online again by a report", fleet.DayPart{Severity: fleet.SeverityUnknown, Quarters: 2}, fleet.DayPart{Severity: fleet.SeverityOK, Quarters: 4})
	if n := queryValue[int](r, `SELECT count(*) FROM host_silences`); n != 2 {
		t.Errorf("%d silences are noted", n)
	}

	// The sweep deletes expired periods; the state at the start of the day is still known.
	before(120)
	goOffline(0)
	says(fleet.PoolFailed, "no route")
	if err := r.DeleteExpiredRows(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM cell_quarters`); n != 2 {
		t.Errorf("%d quarters are left", n)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM host_silences`); n != 0 {
		t.Errorf("%d silences are left", n)
	}
	ends("a day later", fleet.DayPart{Severity: fleet.SeverityOK, Quarters: 95}, fleet.DayPart{Severity: fleet.SeverityBad, Quarters: 1})
}

// PostgreSQL computes the same severity of a host status as package policy.
func TestHostStatusSeverityInSQLMatchesGo(t *testing.T) {
	r := newHostFixture(t)
	for _, state := range []fleet.PoolState{fleet.PoolPending, fleet.PoolActive, fleet.PoolInactive, fleet.PoolFailed, fleet.PoolStalled} {
		for _, used := range []int{0, 89, 90, 96, 97, 100} {
			for _, faulty := range []bool{false, true} {
				want := policy.PoolHealthKey{State: state, UsedPercent: used, Faulty: faulty}.Severity()
				if got := policy.SeverityByRank(queryValue[int](r, `SELECT cell_tone('pool', $1, $2::smallint, $3)`, state, used, faulty)); got != want {
					t.Errorf("a pool that is %s, %d %% used, faulty %v: %s, want %s", state, used, faulty, got, want)
				}
			}
		}
	}
	for _, state := range []fleet.NetworkState{fleet.NetworkActive, fleet.NetworkInactive} {
		for _, faulty := range []bool{false, true} {
			want := fleet.DeriveNetworkState(state, faulty, true).Severity()
			if got := policy.SeverityByRank(queryValue[int](r, `SELECT cell_tone('net', $1, 0::smallint, $2)`, state, faulty)); got != want {
				t.Errorf("a network that is %s, faulty %v: %s, want %s", state, faulty, got, want)
			}
		}
	}
}
