package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

const (
	countInterval     = 2 * time.Second
	fullCountInterval = time.Hour
	maxChangedKeys    = 20_000 // maximum number of changed keys; above it everything is counted
)

// vmCounter maintains the portal's VM counters. It counts the resources named by wake-ups. After lost wake-ups, and
// once an hour as a check, it counts everything. Each portal counts independently, from the same database rows.
type vmCounter struct {
	control       *control.Control
	log           *slog.Logger
	sub           *notify.Subscription
	countAll      bool      // wake-ups may have been lost
	lastFullCount time.Time // time of the last full count
	vms           map[fleet.VMID]struct{}
	hosts         map[fleet.HostID]struct{}
	miscountedVMs map[fleet.VMID]struct{} // VMs with a wrong count whose wake-up may only be late
}

func newVMCounter(c *control.Control, hub *notify.Hub, log *slog.Logger) *vmCounter {
	return &vmCounter{
		control: c, log: log, sub: hub.SubscribeWithLimit(maxChangedKeys, "vm:*", "host:*"), countAll: true,
		vms: map[fleet.VMID]struct{}{}, hosts: map[fleet.HostID]struct{}{},
	}
}

func (n *vmCounter) runLoop(ctx context.Context) error {
	defer n.sub.Close()
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	failing := false
	for {
		once, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := n.countChanges(once, fleet.SystemActor)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			n.log.Warn("counting VMs failed; retrying", "error", err)
		}
		failing = err != nil
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-n.sub.C:
				n.recordChanges(n.sub.TakeKeys())
			case <-tick.C:
				waits = false
			}
		}
	}
}

// recordChanges adds the changed keys to vms and hosts.
func (n *vmCounter) recordChanges(keys []string) {
	for _, key := range keys {
		switch kind, id, _ := strings.Cut(key, ":"); fleet.ResourceType(kind) {
		case fleet.TypeVM:
			n.vms[fleet.VMID(id)] = struct{}{}
			delete(n.miscountedVMs, fleet.VMID(id))
		case fleet.TypeHost:
			n.hosts[fleet.HostID(id)] = struct{}{}
		default: // a resync
			n.countAll = true
		}
	}
}

// countChanges counts the changed resources. After a failure the next run counts them again.
func (n *vmCounter) countChanges(ctx context.Context, a fleet.Actor) error {
	n.recordChanges(n.sub.TakeKeys()) // later wake-ups belong to the next run
	if len(n.miscountedVMs) > 0 {
		n.log.Warn("VMs had wrong counts; corrected", "vms", len(n.miscountedVMs), "one", slices.Sorted(maps.Keys(n.miscountedVMs))[0])
		n.miscountedVMs = nil
	}
	lost, due := n.countAll, time.Since(n.lastFullCount) >= fullCountInterval
	if !lost && !due {
		err := n.control.CountChangedVMs(ctx, a, slices.Collect(maps.Keys(n.vms)), slices.Collect(maps.Keys(n.hosts)))
		if err == nil {
			clear(n.vms)
			clear(n.hosts)
		}
		return err
	}
	other, err := n.control.RefreshCounters(ctx, a)
	if err != nil {
		return err
	}
	n.countAll, n.lastFullCount = false, time.Now()
	if !lost { // the wake-up of a fresh change may arrive after the count
		n.miscountedVMs = make(map[fleet.VMID]struct{}, len(other))
		for _, id := range other {
			if _, known := n.vms[id]; !known {
				n.miscountedVMs[id] = struct{}{}
			}
		}
	}
	clear(n.vms)
	clear(n.hosts)
	return nil
}
