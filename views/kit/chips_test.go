package kit

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestOfflineHostChipShowsUnknown(t *testing.T) {
	t.Parallel()
	if chip := rendered.Text(t, HostPhaseChip(fleet.HostUnknown)); chip != "Unknown" {
		t.Errorf("the host's chip reads %q", chip)
	}
}

func TestOldReportsAreMarkedStale(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	for _, c := range []struct {
		at    *time.Time
		text  string
		stale bool
	}{{ago(9 * time.Second), "just now", false}, {ago(12 * time.Second), "12 s ago", false}, {ago(30 * time.Second), "30 s ago", false}, {ago(31 * time.Second), "31 s ago", true}, {nil, "never", false}} {
		if seen := LastSeenAge(fleet.NewReportTime(c.at, nil), noon); rendered.Text(t, seen) != c.text || strings.Contains(rendered.HTML(t, seen), "stale") != c.stale {
			t.Errorf("%v: %s", c.at, rendered.HTML(t, seen))
		}
	}
	limit := time.Minute
	if seen := rendered.HTML(t, LastSeenAge(fleet.NewReportTime(ago(59*time.Second), &limit), noon)); strings.Contains(seen, "stale") || !strings.Contains(seen, `data-fresh="60"`) {
		t.Errorf("with the host's own limit of a minute: %s", seen)
	}
	for d, want := range map[time.Duration]string{-time.Second: "just now", 10 * time.Second: "10 s ago", 90 * time.Second: "1 min ago"} {
		if got := rendered.Text(t, TimeAgo(ago(d), noon)); got != want {
			t.Errorf("an age of %s reads %q, want %q", d, got, want)
		}
	}
}
