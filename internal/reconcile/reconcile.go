// Package reconcile runs the portal's idempotent reconcilers, periodically and on wake-ups: requeueing of jobs with
// expired leases, tasks with many subjects, drift, assignments by label, peers of overlay networks, VM locations, host
// liveness, counters, cleanup. No reconciler depends on an exact schedule.
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

// reconciler is one function that the portal runs repeatedly: its period, and the keys of the wake-ups that run it at
// once.
type reconciler struct {
	name     string
	period   time.Duration
	wakeKeys []string
	run      func(ctx context.Context, a fleet.Actor) error
}

// Run runs all reconcilers until ctx ends. A failed run is logged and repeated after the reconciler's period.
func Run(ctx context.Context, c *control.Control, hub *notify.Hub, log *slog.Logger) error {
	live := livenessReconciler{control: c, hub: hub}
	reconcilers := []reconciler{
		{"rescue jobs", 2 * time.Second, nil, c.RecoverExpiredJobs},
		{"begin tasks", 2 * time.Second, []string{"orders"}, c.BeginTasks},
		{"evict VMs", 5 * time.Second, nil, c.EvictVMs},
		{"settle maintenance", 2 * time.Second, nil, c.SettleMaintenance},
		{"end host commands", 10 * time.Second, nil, c.EndStaleHostCommands},
		{"agent upgrades", 2 * time.Second, nil, c.AdvanceUpgrades},
		{"terminate hosts", 2 * time.Second, nil, c.AdvanceTerminations},
		{"queue drift", 15 * time.Second, nil, c.QueueDriftedObjects},
		labelReconciler(c),
		{"gather peers", time.Minute, []string{"peers"}, withMinInterval(time.Second, c.UpdateOverlayPeers)},
		{"follow port groups", 15 * time.Second, []string{"filters"}, c.ApplyPortGroupDefaults},
		{"settle security groups", 15 * time.Second, []string{"filters"}, c.AssignAndReleaseSecurityGroups},
		{"settle places", time.Second, nil, c.ReassignMovedVMs},
		{"watch hosts", 2 * time.Second, nil, live.compareLiveness},
		{"stranded disks", 15 * time.Second, nil, c.DeleteStrandedDisks},
		{"settle rules", 5 * time.Second, nil, c.RecordBrokenRules},
		{"expire VMs", time.Minute, nil, c.ExpireVMs},
		{"purge recycle bin", time.Minute, nil, c.PurgeOverdueVMs},
		{"snapshot schedules", 15 * time.Second, nil, c.RunSnapshotSchedules},
		{"temporary snapshots", 5 * time.Second, nil, c.DeleteTemporarySnapshots},
		{"end uploads", time.Minute, nil, c.CancelStaleUploads},
		{"end exports", 5 * time.Minute, nil, c.DeleteStaleExports},
		{"evaluate alarms", 10 * time.Second, nil, c.EvaluateAlarms},
		{"notify of alarms", 5 * time.Second, []string{"alarms", "requests"}, withMinInterval(2*time.Second, c.NotifyAlarms)},
		{"expire requests", 10 * time.Minute, nil, c.ExpireRequests},
		{"sum metrics", 10 * time.Second, nil, c.SumMetrics},
		{"predict pools", time.Minute, nil, c.PredictPools},
		{"log host liveness", 5 * time.Second, nil, c.LogHostLiveness},
		{"prune events", time.Minute, nil, c.PruneEvents},
		{"act on health", 5 * time.Second, []string{"policies"}, withMinInterval(2*time.Second, c.ActOnHealth)},
		{"lost console sessions", 30 * time.Second, nil, c.EndLostConsoleSessions},
		{"delete host events", time.Minute, nil, c.DeleteOldHostEvents},
		{"roll up metrics", time.Minute, nil, c.RollUpMetrics},
		{"sweep", 10 * time.Minute, nil, c.DeleteExpiredRows},
		{"recount use", 6 * time.Hour, nil, c.RecountUse},
		{"project days", time.Hour, nil, c.RecordProjectDays},
		{"keep the audit", time.Hour, nil, c.RotateAuditPartitions},
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return runDeliveries(ctx, c, hub, log) })
	group.Go(func() error { return runBMCs(ctx, c, hub, log) })
	group.Go(func() error { return newVMCounter(c, hub, log).runLoop(ctx) })
	for _, r := range reconcilers {
		group.Go(func() error { return r.runLoop(ctx, hub, log) })
	}
	return group.Wait()
}

// withMinInterval enforces a minimum interval between two runs. Many wake-ups become one run, so that one host with
// constant changes does not keep all other hosts busy.
func withMinInterval(interval time.Duration, run func(context.Context, fleet.Actor) error) func(context.Context, fleet.Actor) error {
	var last time.Time
	return func(ctx context.Context, a fleet.Actor) error {
		if wait := interval - time.Since(last); !last.IsZero() && wait > 0 {
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

// labelReconciler assigns pools and networks by label. It runs mostly on wake-ups; the period retries failed
// assignments.
func labelReconciler(c *control.Control) reconciler {
	return reconciler{"assign by label", time.Minute, []string{"labels"}, c.AssignToMatchingHosts}
}

func (r reconciler) runLoop(ctx context.Context, hub *notify.Hub, log *slog.Logger) error {
	wake := hub.Subscribe(r.wakeKeys...)
	defer wake.Close()
	tick := time.NewTicker(r.period)
	defer tick.Stop()
	failing := false
	for {
		once, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := r.run(once, fleet.SystemActor)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			log.Warn("pass failed; retrying", "pass", r.name, "error", err)
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

// livenessReconciler notifies the pages of a host and its VMs when the host goes offline or comes online, and when its
// inventory becomes stale or fresh. These changes write no row, so no trigger announces them.
type livenessReconciler struct {
	control  *control.Control
	hub      *notify.Hub
	notFresh map[fleet.HostID]control.HostLiveness // hosts that are not fresh; nil before the first run
}

func (l *livenessReconciler) compareLiveness(ctx context.Context, a fleet.Actor) error {
	notFresh, err := l.control.StaleHosts(ctx, a)
	if err != nil {
		return err
	}
	of := func(all map[fleet.HostID]control.HostLiveness, host fleet.HostID) control.HostLiveness {
		if b, ok := all[host]; ok {
			return b
		}
		return control.HostLiveness{Online: true, ReportFresh: true}
	}
	var changed []fleet.HostID // hosts whose VMs have new phases
	if l.notFresh != nil {
		hosts := maps.Clone(l.notFresh)
		maps.Copy(hosts, notFresh)
		for host := range hosts {
			was, now := of(l.notFresh, host), of(notFresh, host)
			if was != now {
				l.hub.Wake("host:" + string(host))
			}
			if was.ReportFresh != now.ReportFresh {
				changed = append(changed, host)
			}
		}
	}
	vms, err := l.control.VMsOnHosts(ctx, a, changed)
	if err != nil {
		return err
	}
	for _, vm := range vms {
		l.hub.Wake(string(fleet.SubjectVM(vm)))
	}
	l.notFresh = notFresh
	return nil
}
