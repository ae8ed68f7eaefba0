package auth

import (
	"context"
	"time"

	"quantix/internal/fleet"
)

// hasher bounds how many hashes are computed at once, and how long the others wait.
type hasher struct {
	slots chan struct{}
	wait  time.Duration
}

func (h hasher) do(ctx context.Context, work func() error) error {
	patience := time.NewTimer(h.wait)
	defer patience.Stop()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		return work()
	case <-patience.C:
		return fleet.Errorf(fleet.TooMany, "Too many people are signing in at this moment. Try again in a few seconds.")
	case <-ctx.Done():
		return ctx.Err()
	}
}
