// Package healthcheck has the health checks of a host. Each check is one file: its name, its interval, and the function
// that reads the host. Nothing here changes the host. What programs and the kernel write is bounded and may be broken: a
// check that cannot read one object says so and still judges the others.
//
// The text of a finding changes only with its meaning, because each change is a write of the portal. Numbers that change
// all the time are values.
package healthcheck

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Check is a health check of the host.
type Check struct {
	Name     string // a name of healthevent.Checks
	Interval time.Duration
	Timeout  time.Duration // of one run
	// Run returns all findings that hold now; nil: the check has only occurrences. An error says why the check could not
	// run; Unavailable, that the host has nothing to check; Partial, that only some objects could be read; NotYet, that the
	// agent has just started.
	Run func(ctx context.Context) ([]healthevent.Finding, error)
	// Watch reports occurrences until ctx ends; nil: none. An error ends one attempt, and the next follows after the
	// interval.
	Watch func(ctx context.Context, occur func(healthevent.Finding)) error
}

// Unavailable is the error of a check that has nothing to check on the host. Its text is a sentence with the reason.
type Unavailable string

// Error returns the reason.
func (u Unavailable) Error() string { return string(u) }

// NotYet is the error of a check that waits for the agent's own start. The agent repeats the check soon, and reports the
// reason only if it stays.
type NotYet string

// Error returns the reason.
func (n NotYet) Error() string { return string(n) }

// Partial is the error of a check that could not read some objects. The findings returned with it are those of the
// others.
type Partial struct {
	Unread []string // objects
	Reason string   // sentence; empty: the objects are unread without a fault, such as a disk that sleeps
}

// Error returns the reason.
func (p Partial) Error() string { return p.Reason }

// finding returns a finding with one value; value "" adds none.
func finding(object, code string, severity fleet.AlarmSeverity, text, value string, n float64) healthevent.Finding {
	f := healthevent.Finding{Object: object, Code: code, Severity: severity, Text: text}
	if value != "" {
		f.Values = map[string]float64{value: n}
	}
	return f
}
