package agent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// newBackoff returns an exponential backoff: the wait starts at initial, doubles, and never exceeds maximum. Each wait
// is randomized by half, so that a thousand agents do not reconnect at once.
func newBackoff(initial, maximum time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor = initial, 2, 0.5
	b.MaxInterval = maximum * 2 / 3 // randomization raises a wait up to maximum
	b.Reset()
	return b
}

// sleepContext waits for d; false: ctx ended first.
func sleepContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
