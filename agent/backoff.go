package agent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// newBackoff returns a backoff that doubles from first, each wait randomized by half, so that a thousand agents do not
// reconnect at once. No wait is longer than most.
func newBackoff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor = first, 2, 0.5
	b.MaxInterval = most * 2 / 3 // randomization raises it up to most
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
