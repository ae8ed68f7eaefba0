package agent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// newBackoff doubles from first to most, each wait varied by half.
func newBackoff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, most, 2
	b.Reset()
	return b
}

// pause waits d, at least not at all; false: ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
