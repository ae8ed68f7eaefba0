package fleet

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Resolution of the 24-hour history: quarters of an hour.
const (
	Quarter     = 15 * time.Minute
	DayQuarters = 96
)

// Day is the 24-hour history of a status, as runs of equal severity, oldest first. Each quarter of an hour has
// its worst severity. A quarter without data has an empty severity.
type Day []DayPart

// DayPart is a run of quarters with the same severity.
type DayPart struct {
	Severity Severity `json:"severity"` // empty: no data
	Quarters int      `json:"quarters"`
}

// SeverityChange is a quarter of an hour with a change of a status's severity.
type SeverityChange struct {
	Quarter     time.Time
	Worst, Last Severity // worst severity in the quarter, and the severity at its end
}

// OfflinePeriod is a time when a host was offline.
type OfflinePeriod struct{ Since, Until time.Time }

// severityRank lists the severities of a history, worst last. The database stores the index in this list.
var severityRank = []Severity{SeverityOK, SeverityWarn, SeverityUnknown, SeverityBad}

// SeverityByRank returns the severity with the stored index; empty for an unknown one.
func SeverityByRank(rank int) Severity {
	if rank < 0 || rank >= len(severityRank) {
		return ""
	}
	return severityRank[rank]
}

// DayStart returns the start of the history that ends now.
func DayStart(now time.Time) time.Time {
	return now.Truncate(Quarter).Add(-(DayQuarters - 1) * Quarter)
}

// ComputeDay computes the history that ends now. changes are ordered by time. The first is the last change before the
// start of the history.
func ComputeDay(now time.Time, changes []SeverityChange, offline []OfflinePeriod) Day {
	var day Day
	var current Severity
	for n, at := 0, DayStart(now); n < DayQuarters; n, at = n+1, at.Add(Quarter) {
		end := at.Add(Quarter)
		severity := current
		for len(changes) > 0 && changes[0].Quarter.Before(end) {
			if !changes[0].Quarter.Before(at) {
				severity = worseSeverity(severity, changes[0].Worst)
			} else {
				severity = changes[0].Last
			}
			current, changes = changes[0].Last, changes[1:]
		}
		if severity != "" && slices.ContainsFunc(offline, func(s OfflinePeriod) bool { return s.Since.Before(end) && s.Until.After(at) }) {
			severity = worseSeverity(severity, SeverityUnknown)
		}
		if last := len(day) - 1; last >= 0 && day[last].Severity == severity {
			day[last].Quarters++
		} else {
			day = append(day, DayPart{severity, 1})
		}
	}
	if len(day) == 1 && day[0].Severity == "" {
		return nil
	}
	return day
}

func worseSeverity(a, b Severity) Severity {
	if slices.Index(severityRank, a) > slices.Index(severityRank, b) {
		return a
	}
	return b
}

var dayWords = []struct {
	severity Severity
	word     string
}{{SeverityOK, "OK"}, {SeverityWarn, "warning"}, {SeverityBad, "failed"}, {SeverityUnknown, "unknown"}, {"", "no data"}}

// Text returns the history as text, for screen readers: "In the last 24 h: OK 23 h 15 min, failed 45 min".
func (d Day) Text() string {
	var parts []string
	for _, w := range dayWords {
		n := 0
		for _, p := range d {
			if p.Severity == w.severity {
				n += p.Quarters
			}
		}
		if n > 0 {
			parts = append(parts, w.word+" "+quartersText(n))
		}
	}
	return "In the last 24 h: " + strings.Join(parts, ", ")
}

func quartersText(n int) string {
	hours, minutes := n/4, n%4*15
	switch {
	case hours == 0:
		return strconv.Itoa(minutes) + " min"
	case minutes == 0:
		return strconv.Itoa(hours) + " h"
	}
	return strconv.Itoa(hours) + " h " + strconv.Itoa(minutes) + " min"
}
