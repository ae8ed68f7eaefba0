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

// The passes below are input-free and idempotent; package reconcile runs them by event and by period. Where several
// portals share a database, one of them runs a pass at a time and the others find nothing to do.

// QueueDrifted queues the work that brings hosts to the newest intent where nothing is on its way.
func (c *Control) QueueDrifted(ctx context.Context, a fleet.Actor) error {
	return c.store.Pass(ctx, a, "drift", func(q *db.Queries) error {
		vms, err := q.DriftedVMs(ctx, fleet.Freshness)
		if err != nil {
			return err
		}
		for _, vm := range vms {
			kind := fleet.VMApply
			if vm.DeletedAt != nil {
				kind = fleet.VMDelete
			}
			if _, err := store.Queue(ctx, q, a, db.JoinQueueParams{
				HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: kind, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name, Generation: vm.Generation,
			}); err != nil {
				return err
			}
		}
		return assign.QueueDrifted(ctx, q, a)
	})
}

// AssignLabelled puts pools and networks on the hosts whose labels ask for them.
func (c *Control) AssignLabelled(ctx context.Context, a fleet.Actor) error {
	return assign.Labelled(ctx, c.store, a)
}

// GatherPeers tells the hosts of each overlay of one another, where they are others than before.
func (c *Control) GatherPeers(ctx context.Context, a fleet.Actor) error {
	return assign.GatherPeers(ctx, c.store, a)
}

// SettleSecurityGroups brings security groups to the hosts that have cards in them, with the addresses that their members have now.
func (c *Control) SettleSecurityGroups(ctx context.Context, a fleet.Actor) error {
	return c.store.Pass(ctx, a, "security groups", func(q *db.Queries) error { return assign.SettleSecurityGroups(ctx, q, a) })
}

// sweptAtOnce is how many rows of a table go in one transaction.
const sweptAtOnce = 5000

// Sweep deletes what has served its time: tickets, idempotency keys, throttles, browsers that do not come any more,
// lost networks, old tasks and the jobs of none. It ends when nothing is left, or after 20 s: then the next one goes on.
func (c *Control) Sweep(ctx context.Context, a fleet.Actor) error {
	more := true
	for until := time.Now().Add(20 * time.Second); more && time.Now().Before(until); {
		more = false
		err := c.store.Pass(ctx, a, "sweep", func(q *db.Queries) error {
			forget := func(ctx context.Context) error { return agentapi.ForgetNetworks(ctx, q) }
			for _, do := range []func(context.Context) error{q.SweepTickets, q.SweepIdempotency, q.SweepThrottle, q.SweepBrowsers, q.SweepOfflinePeriods, forget} {
				if err := do(ctx); err != nil {
					return err
				}
			}
			tasks, err := q.SweepTasks(ctx, sweptAtOnce)
			if err != nil {
				return err
			}
			jobs, err := q.SweepJobs(ctx, sweptAtOnce)
			if err != nil {
				return err
			}
			plans, err := q.SweepPlans(ctx, db.SweepPlansParams{Life: fleet.PlanLife, Most: sweptAtOnce})
			if err != nil {
				return err
			}
			quarters, err := q.SweepQuarters(ctx, sweptAtOnce)
			more = max(tasks, jobs, plans, quarters) == sweptAtOnce
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// KeepAudit makes the tables of the months to come and drops those that need not be kept any more.
func (c *Control) KeepAudit(ctx context.Context, a fleet.Actor) error {
	months := cmp.Or(c.opts.AuditMonths, 1200)
	return c.store.Pass(ctx, a, "keep the audit", func(q *db.Queries) error { return q.KeepAudit(ctx, int32(months)) })
}

// VMsOf lists the VMs of hosts.
func (c *Control) VMsOf(ctx context.Context, a fleet.Actor, hosts []fleet.HostID) ([]fleet.VMID, error) {
	if err := store.OnlySystem(a); err != nil || len(hosts) == 0 {
		return nil, err
	}
	ids, err := c.store.VMsOfHosts(ctx, store.Texts(hosts))
	return ids, store.Err(err)
}

// HostLiveness is what is believed of a host now: that it is there, and what it says about its hypervisor.
type HostLiveness struct{ Online, Looked bool }

// HostsNotFresh tells of the joined hosts of which not all is within fleet.Freshness what is.
func (c *Control) HostsNotFresh(ctx context.Context, a fleet.Actor) (map[fleet.HostID]HostLiveness, error) {
	if err := store.OnlySystem(a); err != nil {
		return nil, err
	}
	rows, err := c.store.HostsNotFresh(ctx, fleet.Freshness)
	if err != nil {
		return nil, store.Err(err)
	}
	hosts := make(map[fleet.HostID]HostLiveness, len(rows))
	for _, r := range rows {
		hosts[r.HostID] = HostLiveness{r.Heard, r.Looked}
	}
	return hosts, nil
}
