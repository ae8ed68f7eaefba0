package release

import (
	"time"

	"quantix/internal/fleet"
)

// BatchSize is the maximum number of hosts after the canaries that upgrade at the same time.
const BatchSize = 5

// Limits and default of the time for which the canaries must stay online before the other hosts begin.
const (
	DefaultSoak = 2 * time.Minute
	MaxSoak     = 24 * time.Hour
)

// HostStep is the upgrade of one host in an upgrade of many hosts.
type HostStep struct {
	Host    string // the host's name
	Stage   int    // 0: a canary
	State   fleet.JobState
	Held    bool // the host may not begin yet
	EndedAt time.Time
	Online  bool
	Version string // the version that the host reports
}

// NextStage decides whether the next stage of an upgrade to the version may begin. stop is the reason, as a sentence, why
// no further host begins; empty: there is none. begin: the hosts of the lowest held stage may begin.
func NextStage(steps []HostStep, version string, soak time.Duration, now time.Time) (begin bool, stop string) {
	waits, afterCanary := false, true
	var newest time.Time
	for _, s := range steps {
		switch {
		case s.Held:
		case !s.State.IsFinal():
			waits = true
		case s.State == fleet.JobCancelled:
			return false, "Not started: the upgrade of " + s.Host + " was cancelled."
		case s.State == fleet.JobUnknown:
			return false, "Not started: the outcome of the upgrade of " + s.Host + " is unknown."
		case s.State != fleet.JobDone:
			return false, "Not started: the upgrade of " + s.Host + " failed."
		case !s.Online:
			return false, "Not started: " + s.Host + " went offline after its upgrade."
		case s.Version != version:
			return false, "Not started: " + s.Host + " reports version " + s.Version + " after its upgrade."
		}
		if !s.Held && s.Stage > 0 {
			afterCanary = false
		}
		if s.EndedAt.After(newest) {
			newest = s.EndedAt
		}
	}
	if waits || afterCanary && now.Sub(newest) < soak {
		return false, ""
	}
	return true, ""
}
