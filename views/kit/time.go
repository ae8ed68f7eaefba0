package kit

import (
	"fmt"
	"time"
)

// ShortDuration formats a duration by its largest unit: "4 s", "12 min", "3 h", "5 d".
func ShortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// AgoText formats how long ago an event was: "just now", "12 s ago". Ages below 10 s are within the time that a report
// takes.
func AgoText(d time.Duration) string {
	if d < 10*time.Second {
		return "just now"
	}
	return ShortDuration(d) + " ago"
}

// ElapsedText formats how long an operation lasted: "0.6 s", "12 s", "3 min".
func ElapsedText(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	}
	if tenths := d.Round(100 * time.Millisecond); tenths < 10*time.Second {
		return fmt.Sprintf("%.1f s", tenths.Seconds())
	}
	return ShortDuration(d.Round(time.Second))
}

// JavaScriptTime formats a time for the browser's scripts.
func JavaScriptTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func utcTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// AgeText is the age of a host's last report, such as "3 h"; a report that never came has none.
func AgeText(t *time.Time, now time.Time) string {
	if t == nil {
		return "unknown"
	}
	return ShortDuration(now.Sub(*t))
}
