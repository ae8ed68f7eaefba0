package policy_test

import (
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func TestDayHistoryKeepsWorstSeverityPerQuarterHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 7, 0, 0, time.UTC)
	quarter := func(ago int) time.Time { return now.Truncate(fleet.Quarter).Add(-time.Duration(ago) * fleet.Quarter) }
	ok, bad, warn, unknown := fleet.SeverityOK, fleet.SeverityBad, fleet.SeverityWarn, fleet.SeverityUnknown
	for name, c := range map[string]struct {
		turns   []policy.SeverityChange
		offline []policy.OfflinePeriod
		want    fleet.StatusHistory
	}{
		"nothing known": {},
		"offline without data": {
			offline: []policy.OfflinePeriod{{quarter(50), quarter(40)}},
		},
		"well for a long time": {
			turns: []policy.SeverityChange{{quarter(500), bad, ok}},
			want:  fleet.StatusHistory{{Severity: ok, Quarters: 96}},
		},
		"data for three quarters": {
			turns: []policy.SeverityChange{{quarter(2), ok, ok}},
			want:  fleet.StatusHistory{{Severity: "", Quarters: 93}, {Severity: ok, Quarters: 3}},
		},
		"failed and recovered within a quarter": {
			turns: []policy.SeverityChange{{quarter(200), ok, ok}, {quarter(10), bad, ok}},
			want:  fleet.StatusHistory{{Severity: ok, Quarters: 85}, {Severity: bad, Quarters: 1}, {Severity: ok, Quarters: 10}},
		},
		"failed for an hour": {
			turns: []policy.SeverityChange{{quarter(200), ok, ok}, {quarter(10), bad, bad}, {quarter(6), bad, warn}},
			want:  fleet.StatusHistory{{Severity: ok, Quarters: 85}, {Severity: bad, Quarters: 5}, {Severity: warn, Quarters: 6}},
		},
		"just now": {
			turns: []policy.SeverityChange{{quarter(200), ok, ok}, {quarter(0), bad, bad}},
			want:  fleet.StatusHistory{{Severity: ok, Quarters: 95}, {Severity: bad, Quarters: 1}},
		},
		"offline for a minute, and offline now": {
			turns:   []policy.SeverityChange{{quarter(200), ok, ok}},
			offline: []policy.OfflinePeriod{{quarter(9).Add(time.Minute), quarter(9).Add(2 * time.Minute)}, {quarter(1).Add(time.Minute), now}},
			want:    fleet.StatusHistory{{Severity: ok, Quarters: 86}, {Severity: unknown, Quarters: 1}, {Severity: ok, Quarters: 7}, {Severity: unknown, Quarters: 2}},
		},
		"offline does not hide a failure": {
			turns:   []policy.SeverityChange{{quarter(200), bad, bad}},
			offline: []policy.OfflinePeriod{{quarter(300), quarter(90)}},
			want:    fleet.StatusHistory{{Severity: bad, Quarters: 96}},
		},
	} {
		got := policy.ComputeDay(now, c.turns, c.offline)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
