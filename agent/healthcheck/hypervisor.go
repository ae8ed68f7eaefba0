package healthcheck

import (
	"context"
	"errors"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Limits of the hypervisor's answer to a cheap call.
const (
	slowAnswer = 2 * time.Second
	noAnswer   = 15 * time.Second
)

// Hypervisor returns the check that measures how long the hypervisor needs for a cheap call.
func Hypervisor(ping func(context.Context) error) Check {
	return Check{Name: "libvirt", Interval: 30 * time.Second, Timeout: noAnswer + 5*time.Second, Run: func(ctx context.Context) ([]healthevent.Finding, error) {
		within, cancel := context.WithTimeout(ctx, noAnswer)
		defer cancel()
		began := time.Now()
		err := ping(within)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return []healthevent.Finding{finding("", "hypervisor-hangs", fleet.AlarmCritical, "The hypervisor does not answer: a call did not end within 15 s. Guests keep running, but cannot be managed.", "seconds", took.Seconds())}, nil
		case err != nil:
			return []healthevent.Finding{finding("", "hypervisor-away", fleet.AlarmCritical, "The hypervisor cannot be reached: "+err.Error(), "", 0)}, nil
		case took > slowAnswer:
			return []healthevent.Finding{finding("", "hypervisor-slow", fleet.AlarmWarning, "The hypervisor needs more than 2 s to answer a cheap call.", "seconds", took.Seconds())}, nil
		}
		return nil, nil
	}}
}
