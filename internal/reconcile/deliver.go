package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"quantix/internal/control"
	"quantix/internal/control/channels"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// maxDeliveries is how many messages one portal sends at the same time. A channel has at most one of them, so that a
// receiver that hangs delays no other.
const maxDeliveries = 256

// runDeliveries sends messages of channels until ctx ends.
func runDeliveries(ctx context.Context, c *control.Control, hub *notify.Hub, log *slog.Logger) error {
	slots := semaphore.NewWeighted(maxDeliveries)
	var sending sync.WaitGroup
	defer sending.Wait()
	// A claimed message never waits for a slot, because its lease would end meanwhile, and it would be sent twice. A message
	// that ends wakes this loop.
	claim := func(once context.Context, a fleet.Actor) error {
		if !slots.TryAcquire(channels.MaxClaimed) {
			return nil
		}
		claimed, err := c.ClaimDeliveries(once, a)
		slots.Release(int64(channels.MaxClaimed - len(claimed)))
		for _, d := range claimed {
			sending.Go(func() {
				defer slots.Release(1)
				send(ctx, c, hub, log, d)
			})
		}
		return err
	}
	r := reconciler{"deliver notifications", 2 * time.Second, []string{"channels"}, withMinInterval(200*time.Millisecond, claim)}
	return r.runLoop(ctx, hub, log)
}

func send(ctx context.Context, c *control.Control, hub *notify.Hub, log *slog.Logger, d channels.Claimed) {
	if err := c.SendDelivery(ctx, fleet.SystemActor, d); err != nil && ctx.Err() == nil {
		log.Warn("the result of a notification was not recorded; it is sent again", "delivery", d.ID, "error", err)
	}
	hub.Wake("channels") // another message of the channel can be waiting
}
