package control

import (
	"context"
	"time"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

const readinessInterval = 5 * time.Second // interval of background checks

// Ready returns nil if the database accepts writes. It writes at most once a second.
func (c *Control) Ready(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	return c.store.Ready(ctx)
}

// CheckDatabasePeriodically checks the database periodically until ctx ends, so that a lost database is noticed without
// readiness requests.
func (c *Control) CheckDatabasePeriodically(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	beat := time.NewTicker(readinessInterval)
	defer beat.Stop()
	well := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		err := c.Ready(ctx, a)
		if ctx.Err() == nil && (err == nil) != well {
			if well = err == nil; well {
				c.log.Info("the database accepts changes again")
			} else {
				c.log.Warn("the database does not accept changes", "error", err)
			}
		}
	}
}
