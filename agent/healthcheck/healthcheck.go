// Package healthcheck defines the health checks of a host. Each check is one file: its name, its interval, and the
// function that reads the host. Nothing here changes the host.
package healthcheck

import (
	"context"
	"time"

	"quantix/internal/healthevent"
)

// Check is a health check of the host.
type Check struct {
	Name     string // a name of healthevent.Checks
	Interval time.Duration
	Timeout  time.Duration // of one run
	// Run returns all findings that hold now; nil: the check has only occurrences. An error says why the check could not
	// run; Unavailable, that the host has nothing to check.
	Run func(ctx context.Context) ([]healthevent.Finding, error)
	// Watch reports occurrences until ctx ends; nil: none. An error ends one attempt, and the next follows after the
	// interval.
	Watch func(ctx context.Context, occur func(healthevent.Finding)) error
}

// Unavailable is the error of a check that has nothing to check on the host. Its text is a sentence with the reason.
type Unavailable string

// Error returns the reason.
func (u Unavailable) Error() string { return string(u) }
