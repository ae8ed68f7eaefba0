package fleet_test

import (
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestDayHistoryKeepsWorstSeverityPerQuarterHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 7, 0, 0, time.UTC)
	quarter := func(ago int) time.Time { return now.Truncate(fleet.Quarter).Add(-time.Duration(ago) * fleet.Quarter) }
	ok, bad, warn, unknown := fleet.SeverityOK, fleet.SeverityBad, fleet.SeverityWarn, fleet.SeverityUnknown
	for name, c := range map[string]struct {
		turns   []fleet.SeverityChange
		offline []fleet.OfflinePeriod
		want    fleet.Day
		words   string
	}{
		"nothing known": {},
		"offline without data": {
			offline: []fleet.OfflinePeriod{{quarter(50), quarter(40)}},
		},
		"well for a long time": {
			turns: []fleet.SeverityChange{{quarter(500), bad, ok}},
			want:  fleet.Day{{ok, 96}}, words: "In the last 24 h: OK 24 h",
		},
		"data for three quarters": {
			turns: []fleet.SeverityChange{{quarter(2), ok, ok}},
			want:  fleet.Day{{"", 93}, {ok, 3}}, words: "In the last 24 h: OK 45 min, no data 23 h 15 min",
		},
		"failed and recovered within a quarter": {
			turns: []fleet.SeverityChange{{quarter(200), ok, ok}, {quarter(10), bad, ok}},
			want:  fleet.Day{{ok, 85}, {bad, 1}, {ok, 10}},
		},
		"failed for an hour": {
			turns: []fleet.SeverityChange{{quarter(200), ok, ok}, {quarter(10), bad, bad}, {quarter(6), bad, warn}},
			want:  fleet.Day{{ok, 85}, {bad, 5}, {warn, 6}}, words: "In the last 24 h: OK 21 h 15 min, warning 1 h 30 min, failed 1 h 15 min",
		},
		"just now": {
			turns: []fleet.SeverityChange{{quarter(200), ok, ok}, {quarter(0), bad, bad}},
			want:  fleet.Day{{ok, 95}, {bad, 1}},
		},
		"offline for a minute, and offline now": {
			turns:   []fleet.SeverityChange{{quarter(200), ok, ok}},
			offline: []fleet.OfflinePeriod{{quarter(9).Add(time.Minute), quarter(9).Add(2 * time.Minute)}, {quarter(1).Add(time.Minute), now}},
			want:    fleet.Day{{ok, 86}, {unknown, 1}, {ok, 7}, {unknown, 2}},
		},
		"offline does not hide a failure": {
			turns:   []fleet.SeverityChange{{quarter(200), bad, bad}},
			offline: []fleet.OfflinePeriod{{quarter(300), quarter(90)}},
			want:    fleet.Day{{bad, 96}},
		},
	} {
		got := fleet.ComputeDay(now, c.turns, c.offline)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if c.words != "" && got.Text() != c.words {
			t.Errorf("%s: %q", name, got.Text())
		}
	}
}
