package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Thresholds in percent of the host's memory. Below memoryScarcePercent, guests shrink until memoryEnoughPercent is
// available. Above memoryPlentyPercent, guests grow by at most memoryStepPercent a round. In between, sizes stay, so
// that they do not oscillate.
const (
	memoryScarcePercent = 10
	memoryEnoughPercent = 15
	memoryPlentyPercent = 20
	memoryStepPercent   = 5
)

// BalanceMemory resizes guests by one step. It shrinks guests with a memory minimum if the host is short of memory, and
// grows guests if the host has plenty. A guest's share is proportional to the memory that the guest can give or lacks.
// Guests for which skip returns true stay unchanged. below reports that at least one guest has less than its maximum
// memory.
func BalanceMemory(ctx context.Context, hv hypervisor.Hypervisor, availableBytes, totalBytes int64, skip func(fleet.VMID) bool) (below bool, err error) {
	all, err := hv.Balloons(ctx)
	if err != nil {
		return true, fmt.Errorf("read the guests' memory balloons: %w", err)
	}
	wanted := newBalloonSizes(availableBytes>>20, totalBytes>>20, all)
	for _, g := range all {
		want, changes := wanted[g.ID]
		if below = below || g.CurrentMiB < g.MaxMiB || changes; changes && !skip(g.ID) {
			err = errors.Join(err, hv.SetBalloon(ctx, g.ID, want))
		}
	}
	return below, err
}

// newBalloonSizes returns the new sizes in MiB of guests whose size must change.
func newBalloonSizes(available, total int64, all []hypervisor.BalloonGuest) map[fleet.VMID]int {
	var room, lack int64
	for _, g := range all {
		room, lack = room+shrinkableMiB(g), lack+growableMiB(g)
	}
	var take, give int64
	switch {
	case available < total*memoryScarcePercent/100:
		take = min(total*memoryEnoughPercent/100-available, room)
	case available > total*memoryPlentyPercent/100:
		give = min(available-total*memoryPlentyPercent/100, total*memoryStepPercent/100, lack)
	}
	out := map[fleet.VMID]int{}
	for _, g := range all {
		has := min(g.CurrentMiB, g.MaxMiB)
		want := has + int(proportion(give, growableMiB(g), lack)-proportion(take, shrinkableMiB(g), room))
		if want = min(max(want, g.MinMiB), g.MaxMiB); want != has {
			out[g.ID] = want
		}
	}
	return out
}

func shrinkableMiB(g hypervisor.BalloonGuest) int64 {
	return int64(max(0, min(g.CurrentMiB, g.MaxMiB)-g.MinMiB))
}
func growableMiB(g hypervisor.BalloonGuest) int64 { return int64(max(0, g.MaxMiB-g.CurrentMiB)) }

// proportion returns n*own/all, rounded up; 0 if n is not positive or all is 0.
func proportion(n, own, all int64) int64 {
	if n <= 0 || all == 0 {
		return 0
	}
	return (n*own + all - 1) / all
}

// balloonLoop calls BalanceMemory periodically until ctx ends, with or without the portal. It queries guests only while
// the host is short of memory or some guest has less than its maximum memory.
func (a *Agent) balloonLoop(ctx context.Context) {
	if a.hostMemory == nil {
		return
	}
	below, warned := true, false // an earlier agent may have shrunk guests
	for ctx.Err() == nil {
		available, total, err := a.hostMemory(ctx)
		scarce := err == nil && available < total/100*memoryScarcePercent
		if err == nil && (scarce || below) {
			err = a.withCallTimeout(ctx, func(ctx context.Context) (err error) {
				busy := a.running.subjects()
				below, err = BalanceMemory(ctx, a.hypervisor, available, total, func(id fleet.VMID) bool { return busy[fleet.SubjectVM(id)] })
				return err
			})
		}
		switch {
		case err != nil:
			a.log.Debug("The guests' balloons could not be changed.", "error", err)
		case scarce && below && !warned:
			a.log.Warn("The host is short of memory: guests with a memory minimum return some.", "availableMiB", available>>20)
			warned = true
		case !below && warned:
			a.log.Info("All guests have their maximum memory again.")
			warned = false
		}
		sleepContext(ctx, a.timing.balloonInterval)
	}
}
