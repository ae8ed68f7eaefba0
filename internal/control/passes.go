package control

import (
	"cmp"
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// A pass is a background task of the portal. The passes below are idempotent and take no input. Package reconcile runs
// them on events and periodically. If several portals share a database, only one portal runs a pass at a time, and the
// other portals skip that pass.

// QueueDriftedObjects queues a job for each VM, pool and network whose host has not applied the newest generation and has no
// unfinished job to do so.
func (c *Control) QueueDriftedObjects(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "drift", func(q *db.Queries) error {
		vms, err := q.DriftedVMs(ctx)
		if err != nil {
			return err
		}
		for _, vm := range vms {
			kind := fleet.VMApply
			switch {
			case vm.RecycledAt != nil:
				kind = fleet.VMRecycle
			case vm.DeletedAt != nil:
				kind = fleet.VMDelete
			}
			if _, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
				HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: kind, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name, Generation: vm.Generation,
			}); err != nil {
				return err
			}
		}
		return assign.QueueDriftedAssignments(ctx, q, a)
	})
}

// DeleteStrandedDisks queues the deletion of the disks that a migrated VM has left on its old host, if the end of the
// migration's job did not: for example because that host's agent was replaced.
func (c *Control) DeleteStrandedDisks(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "stranded disks", func(q *db.Queries) error { return agentapi.DeleteStrandedDisks(ctx, q) })
}

// AssignToMatchingHosts assigns pools and networks to hosts whose labels match their selectors.
func (c *Control) AssignToMatchingHosts(ctx context.Context, a fleet.Actor) error {
	return assign.AssignByLabels(ctx, c.store, a)
}

// UpdateOverlayPeers updates the peer lists of overlay networks' hosts.
func (c *Control) UpdateOverlayPeers(ctx context.Context, a fleet.Actor) error {
	return assign.UpdateOverlayPeers(ctx, c.store, a)
}

// AssignAndReleaseSecurityGroups sends security groups, with their members' current addresses, to the hosts whose NICs
// use them.
func (c *Control) AssignAndReleaseSecurityGroups(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "security groups", func(q *db.Queries) error { return assign.AssignAndReleaseSecurityGroups(ctx, q, a) })
}

// sweepBatchSize is the maximum number of rows that one transaction deletes from a table.
const sweepBatchSize = 5000

// DeleteExpiredRows deletes expired rows: tickets, idempotency keys, throttle counters, unused browser sessions, discovered
// networks that no host has any more, old tasks and jobs without a task. It stops when nothing is left, or after 20 s;
// the next run continues.
func (c *Control) DeleteExpiredRows(ctx context.Context, a fleet.Actor) error {
	more := true
	for until := time.Now().Add(20 * time.Second); more && time.Now().Before(until); {
		more = false
		err := c.store.RunPass(ctx, a, "sweep", func(q *db.Queries) error {
			forget := func(ctx context.Context) error { return agentapi.DeleteUnusedDiscoveredNetworks(ctx, q) }
			for _, do := range []func(context.Context) error{q.SweepTickets, q.SweepIdempotency, q.SweepThrottle, q.SweepBrowsers, q.SweepOfflinePeriods, forget} {
				if err := do(ctx); err != nil {
					return err
				}
			}
			tasks, err := q.SweepTasks(ctx, sweepBatchSize)
			if err != nil {
				return err
			}
			jobs, err := q.SweepJobs(ctx, sweepBatchSize)
			if err != nil {
				return err
			}
			plans, err := q.SweepPlans(ctx, db.SweepPlansParams{Life: fleet.PlanLifetime, Most: sweepBatchSize})
			if err != nil {
				return err
			}
			quarters, err := q.SweepQuarters(ctx, sweepBatchSize)
			more = max(tasks, jobs, plans, quarters) == sweepBatchSize
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RotateAuditPartitions creates the audit partitions of coming months and drops those past the retention period.
func (c *Control) RotateAuditPartitions(ctx context.Context, a fleet.Actor) error {
	months := cmp.Or(c.opts.AuditMonths, 1200)
	return c.store.RunPass(ctx, a, "keep the audit", func(q *db.Queries) error { return q.RotateAuditPartitions(ctx, int32(months)) })
}

// VMsOnHosts returns the ids of VMs on the hosts.
func (c *Control) VMsOnHosts(ctx context.Context, a fleet.Actor, hosts []fleet.HostID) ([]fleet.VMID, error) {
	if err := store.CheckSystemActor(a); err != nil || len(hosts) == 0 {
		return nil, err
	}
	ids, err := c.store.VMsOfHosts(ctx, store.ToStrings(hosts))
	return ids, store.UserError(err)
}

// HostLiveness reports whether a host is online, and whether the portal's last report from its hypervisor is fresh.
type HostLiveness struct{ Online, ReportFresh bool }

// StaleHosts returns the joined hosts whose last contact or last report is no longer fresh, with their liveness.
func (c *Control) StaleHosts(ctx context.Context, a fleet.Actor) (map[fleet.HostID]HostLiveness, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	rows, err := c.store.HostsNotFresh(ctx)
	if err != nil {
		return nil, store.UserError(err)
	}
	hosts := make(map[fleet.HostID]HostLiveness, len(rows))
	for _, r := range rows {
		hosts[r.HostID] = HostLiveness{r.Heard, r.Looked}
	}
	return hosts, nil
}
