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
	countEvery    = 2 * time.Second
	countAllEvery = time.Hour
	countNamed    = 20_000 // that changed since the last time: of more than that all are counted
)

// counting keeps the counters: it counts what wake-ups name, all where some may have been lost, and all now and then to see that nothing
// was missed. Each portal does it for itself, from the same truth.
type counting struct {
	control *control.Control
	log     *slog.Logger
	sub     *notify.Sub
	all     bool // wake-ups may have been lost
	counted time.Time
	vms     map[fleet.VMID]struct{}
	hosts   map[fleet.HostID]struct{}
	doubted map[fleet.VMID]struct{} // that were counted as something else than they are, and whose wake-up may still come
}

func newCounting(c *control.Control, hub *notify.Hub, log *slog.Logger) *counting {
	return &counting{
		control: c, log: log, sub: hub.SubscribeUpTo(countNamed, "vm:*", "host:*"), all: true,
		vms: map[fleet.VMID]struct{}{}, hosts: map[fleet.HostID]struct{}{},
	}
}

func (n *counting) loop(ctx context.Context) error {
	defer n.sub.Close()
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	failing := false
	for {
		once, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := n.run(once, fleet.SystemActor)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			n.log.Warn("the VMs could not be counted; it is tried again", "error", err)
		}
		failing = err != nil
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-n.sub.C:
				n.note(n.sub.Take())
			case <-tick.C:
				waits = false
			}
		}
	}
}

// note remembers what has changed.
func (n *counting) note(keys []string) {
	for _, key := range keys {
		switch noun, id, _ := strings.Cut(key, ":"); fleet.ResourceType(noun) {
		case fleet.TypeVM:
			n.vms[fleet.VMID(id)] = struct{}{}
			delete(n.doubted, fleet.VMID(id))
		case fleet.TypeHost:
			n.hosts[fleet.HostID(id)] = struct{}{}
		default: // a resync
			n.all = true
		}
	}
}

// run counts what has changed. What could not be counted is counted the next time.
func (n *counting) run(ctx context.Context, a fleet.Actor) error {
	n.note(n.sub.Take()) // what comes from now on is not counted yet
	if len(n.doubted) > 0 {
		n.log.Warn("VMs were counted as something else than they were; they are counted right now", "vms", len(n.doubted), "one", slices.Sorted(maps.Keys(n.doubted))[0])
		n.doubted = nil
	}
	lost, due := n.all, time.Since(n.counted) >= countAllEvery
	if !lost && !due {
		err := n.control.CountChanged(ctx, a, slices.Collect(maps.Keys(n.vms)), slices.Collect(maps.Keys(n.hosts)))
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
	n.all, n.counted = false, time.Now()
	if !lost { // what has just changed is told of just after, or was before
		n.doubted = make(map[fleet.VMID]struct{}, len(other))
		for _, id := range other {
			if _, known := n.vms[id]; !known {
				n.doubted[id] = struct{}{}
			}
		}
	}
	clear(n.vms)
	clear(n.hosts)
	return nil
}
