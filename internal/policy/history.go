package policy

import (
	"slices"
	"time"

	"quantix/internal/fleet"
)

// SeverityChange is a quarter of an hour with a change of a status's severity.
type SeverityChange struct {
	Quarter     time.Time
	Worst, Last fleet.Severity // worst severity in the quarter, and the severity at its end
}

// OfflinePeriod is a time when a host was offline.
type OfflinePeriod struct{ Since, Until time.Time }

// severityRank lists the severities of a history, worst last. The database stores the index in this list.
var severityRank = []fleet.Severity{fleet.SeverityOK, fleet.SeverityWarn, fleet.SeverityUnknown, fleet.SeverityBad}

// SeverityByRank returns the severity with the stored index; empty for an unknown one.
func SeverityByRank(rank int) fleet.Severity {
	if rank < 0 || rank >= len(severityRank) {
		return ""
	}
	return severityRank[rank]
}

// DayStart returns the start of the history that ends now.
func DayStart(now time.Time) time.Time {
	return now.Truncate(fleet.Quarter).Add(-(fleet.DayQuarters - 1) * fleet.Quarter)
}

// ComputeDay computes the history that ends now. changes are ordered by time. The first is the last change before the
// start of the history.
func ComputeDay(now time.Time, changes []SeverityChange, offline []OfflinePeriod) fleet.StatusHistory {
	var day fleet.StatusHistory
	var current fleet.Severity
	for n, at := 0, DayStart(now); n < fleet.DayQuarters; n, at = n+1, at.Add(fleet.Quarter) {
		end := at.Add(fleet.Quarter)
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
			severity = worseSeverity(severity, fleet.SeverityUnknown)
		}
		if last := len(day) - 1; last >= 0 && day[last].Severity == severity {
			day[last].Quarters++
		} else {
			day = append(day, fleet.DayPart{Severity: severity, Quarters: 1})
		}
	}
	if len(day) == 1 && day[0].Severity == "" {
		return nil
	}
	return day
}

func worseSeverity(a, b fleet.Severity) fleet.Severity {
	if slices.Index(severityRank, a) > slices.Index(severityRank, b) {
		return a
	}
	return b
}
