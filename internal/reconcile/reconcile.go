// Package reconcile runs the portal's input-free, idempotent passes by period and by event: rescue of lapsed jobs, orders about
// many things, drift between intent and host, what labels ask for, the hosts of overlays, places of VMs, liveness of hosts, counters, sweeping. Nothing depends on a pass
// running at an exact time.
package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// pass is one duty, how often it runs, and the wake-ups for which it runs at once.
type pass struct {
	name   string
	period time.Duration
	on     []string
	run    func(ctx context.Context, a fleet.Actor) error
}

// Run runs all passes until ctx ends. A pass that fails is logged and runs again at its next time.
func Run(ctx context.Context, c *control.Control, hub *notify.Hub, log *slog.Logger) error {
	live := liveness{control: c, hub: hub}
	passes := []pass{
		{"rescue jobs", 2 * time.Second, nil, c.RescueJobs},
		{"begin tasks", 2 * time.Second, []string{"orders"}, c.BeginTasks},
		{"queue drift", 15 * time.Second, nil, c.QueueDrifted},
		labels(c),
		{"gather peers", time.Minute, []string{"peers"}, rested(time.Second, c.GatherPeers)},
		{"follow port groups", 15 * time.Second, []string{"filters"}, c.FollowPortGroups},
		{"settle security groups", 15 * time.Second, []string{"filters"}, c.SettleSecurityGroups},
		{"settle places", time.Second, nil, c.SettlePlaces},
		{"watch hosts", 2 * time.Second, nil, live.run},
		{"settle rules", 5 * time.Second, nil, c.SettleRules},
		{"expire VMs", time.Minute, nil, c.ExpireVMs},
		{"snapshot schedules", 15 * time.Second, nil, c.TakeScheduled},
		{"temporary snapshots", 5 * time.Second, nil, c.DropTemporary},
		{"end uploads", time.Minute, nil, c.EndUploads},
		{"end exports", 5 * time.Minute, nil, c.EndExports},
		{"sweep", 10 * time.Minute, nil, c.Sweep},
		{"keep the audit", time.Hour, nil, c.KeepAudit},
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return newCounting(c, hub, log).loop(ctx) })
	for _, p := range passes {
		group.Go(func() error { return p.loop(ctx, hub, log) })
	}
	return group.Wait()
}

// rested lets so much time pass between two runs: many wake-ups become one, and a host that says something else all the time does not keep all others
// busy.
func rested(least time.Duration, run func(context.Context, fleet.Actor) error) func(context.Context, fleet.Actor) error {
	var last time.Time
	return func(ctx context.Context, a fleet.Actor) error {
		if wait := least - time.Since(last); !last.IsZero() && wait > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
		last = time.Now()
		return run(ctx, a)
	}
}

// labels is by event mostly: by period it tries again what could not be.
func labels(c *control.Control) pass {
	return pass{"assign by label", time.Minute, []string{"labels"}, c.AssignLabelled}
}

func (p pass) loop(ctx context.Context, hub *notify.Hub, log *slog.Logger) error {
	wake := hub.Subscribe(p.on...)
	defer wake.Close()
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	failing := false
	for {
		once, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := p.run(once, fleet.SystemActor)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			log.Warn("a pass failed; it is tried again", "pass", p.name, "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wake.C:
		}
	}
}

// liveness wakes the pages of hosts that went silent, look at their hypervisor no more, or came back, and those of their VMs:
// silence writes no row, so nothing else would announce it.
type liveness struct {
	control *control.Control
	hub     *notify.Hub
	doubted map[fleet.HostID]control.HostLiveness // what is believed of those of which not all is; nil: nobody has looked yet
}

func (l *liveness) run(ctx context.Context, a fleet.Actor) error {
	doubted, err := l.control.HostsNotFresh(ctx, a)
	if err != nil {
		return err
	}
	of := func(all map[fleet.HostID]control.HostLiveness, host fleet.HostID) control.HostLiveness {
		if b, ok := all[host]; ok {
			return b
		}
		return control.HostLiveness{Online: true, Looked: true}
	}
	var blinked []fleet.HostID // their VMs have other phases now
	if l.doubted != nil {
		hosts := maps.Clone(l.doubted)
		maps.Copy(hosts, doubted)
		for host := range hosts {
			was, now := of(l.doubted, host), of(doubted, host)
			if was != now {
				l.hub.Wake("host:" + string(host))
			}
			if was.Looked != now.Looked {
				blinked = append(blinked, host)
			}
		}
	}
	vms, err := l.control.VMsOf(ctx, a, blinked)
	if err != nil {
		return err
	}
	for _, vm := range vms {
		l.hub.Wake(string(fleet.SubjectVM(vm)))
	}
	l.doubted = doubted
	return nil
}
