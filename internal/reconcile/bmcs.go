package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"quantix/internal/control"
	"quantix/internal/control/hostpower"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// Numbers of BMCs to which one portal is connected at the same time. Commands have connections of their own, so that BMCs
// that hang do not delay them.
const (
	maxBMCReads    = 256
	maxPowerOrders = 64
)

// bmcRunner runs work on BMCs in goroutines.
type bmcRunner struct {
	ctx     context.Context //nolint:containedctx // that of the loops, which outlives a run
	hub     *notify.Hub
	log     *slog.Logger
	running sync.WaitGroup
}

// runBMCs reads BMCs and carries out power orders until ctx ends.
func runBMCs(ctx context.Context, c *control.Control, hub *notify.Hub, log *slog.Logger) error {
	r := &bmcRunner{ctx: ctx, hub: hub, log: log}
	defer r.running.Wait()
	var loops sync.WaitGroup
	defer loops.Wait()
	reads := reconciler{"read BMCs", 2 * time.Second, []string{"bmcs"}, withMinInterval(200*time.Millisecond, claimBMCs(r, maxBMCReads, hostpower.MaxClaimedBMCs, c.ClaimBMCs, c.ReadBMC))}
	loops.Go(func() { _ = reads.runLoop(ctx, hub, log) })
	orders := reconciler{"power orders", time.Second, []string{"bmcs"}, withMinInterval(200*time.Millisecond, claimBMCs(r, maxPowerOrders, hostpower.MaxClaimedOrders, c.ClaimPowerOrders, c.RunPowerOrder))}
	return orders.runLoop(ctx, hub, log)
}

// claimBMCs returns a function that claims work and starts it. Claimed work never waits for a slot, because its lease would
// end meanwhile.
func claimBMCs[T any](
	r *bmcRunner, most, batch int64, claim func(context.Context, fleet.Actor) ([]T, error), do func(context.Context, fleet.Actor, T) error,
) func(context.Context, fleet.Actor) error {
	slots := semaphore.NewWeighted(most)
	return func(once context.Context, a fleet.Actor) error {
		if !slots.TryAcquire(batch) {
			return nil
		}
		claimed, err := claim(once, a)
		slots.Release(batch - int64(len(claimed)))
		for _, w := range claimed {
			r.running.Go(func() {
				defer slots.Release(1)
				if err := do(r.ctx, a, w); err != nil && r.ctx.Err() == nil {
					r.log.Warn("the result of a BMC was not recorded; its lease ends", "error", err)
				}
			})
		}
		if int64(len(claimed)) == batch {
			r.hub.Wake("bmcs") // more can be due
		}
		return err
	}
}
