package auth

import (
	"context"
	"time"

	"quantix/internal/fleet"
)

// hasher limits the number of concurrent hash computations, and how long a caller waits for its turn.
type hasher struct {
	slots chan struct{}
	wait  time.Duration
}

func (h hasher) runInSlot(ctx context.Context, work func() error) error {
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		return work()
	case <-timer.C:
		return fleet.Errorf(fleet.TooMany, "Too many people are signing in at this moment. Try again in a few seconds.")
	case <-ctx.Done():
		return ctx.Err()
	}
}
