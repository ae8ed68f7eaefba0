package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// The passes below are input-free and idempotent; package reconcile runs them by event and by period. Where several
// portals share a database, one of them runs a pass at a time and the others find nothing to do.

// onlySystem refuses everybody but the portal itself.
func onlySystem(a fleet.Actor) error {
	if !a.System {
		return fleet.Errorf(fleet.Forbidden, "Only the portal itself may do this.")
	}
	return nil
}

// pass runs do in a transaction while no other portal runs the same pass.
func (c *Control) pass(ctx context.Context, a fleet.Actor, name string, do func(q *db.Queries) error) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	err := c.tx(ctx, func(q *db.Queries) error {
		mine, err := q.TryPassLock(ctx, name)
		if err != nil || !mine {
			return err
		}
		return do(q)
	})
	if err != nil {
		return fmt.Errorf("pass %s: %w", name, err)
	}
	return nil
}

// RescueJobs gives jobs whose lease has lapsed back to their hosts, and ends those that were tried too often.
func (c *Control) RescueJobs(ctx context.Context, a fleet.Actor) error {
	return c.pass(ctx, a, "rescue", func(q *db.Queries) error {
		if err := giveUp(ctx, q, nil); err != nil {
			return err
		}
		if err := returnJobs(ctx, q, nil); err != nil {
			return err
		}
		return q.WakeDue(ctx)
	})
}

// giveUp ends the lapsed jobs that were taken too often, and those of a host whose agent has started anew. Their VMs and
// pools learn it as they learn of any failure, or the drift pass would queue the same work for ever.
func giveUp(ctx context.Context, q *db.Queries, host *string) error {
	ids, err := q.WornOut(ctx, host)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := q.HoldSubject(ctx, id); err != nil {
			return err
		}
		job, err := q.LockWornOut(ctx, db.LockWornOutParams{ID: id, HostID: host})
		if errors.Is(err, pgx.ErrNoRows) {
			continue // its agent was heard meanwhile
		}
		if err != nil {
			return err
		}
		in := wire.Finish{
			Generation: job.Generation, Outcome: wire.Failed,
			Error: fmt.Sprintf("The agent took this job %d times and never told how it ended.", job.Attempt),
		}
		state := fleet.JobFailed
		if job.Kind.SingleShot(job.Args) {
			in.Outcome, state = wire.Unknown, fleet.JobUnknown
		}
		if _, err := q.EndJob(ctx, db.EndJobParams{ID: id, State: state, Error: in.Error}); err != nil {
			return err
		}
		if err := settle(ctx, q, job, in); err != nil {
			return err
		}
	}
	return nil
}

// returnJobs puts lapsed jobs, or all jobs of a host whose agent has a new session, back into the queue.
func returnJobs(ctx context.Context, q *db.Queries, host *string) error {
	if err := q.ReplaceLapsed(ctx, host); err != nil {
		return err
	}
	_, err := q.ReturnLapsed(ctx, host)
	return err
}

// QueueDrifted queues the work that brings hosts to the newest intent where nothing is on its way.
func (c *Control) QueueDrifted(ctx context.Context, a fleet.Actor) error {
	return c.pass(ctx, a, "drift", func(q *db.Queries) error {
		vms, err := q.DriftedVMs(ctx, fleet.Freshness)
		if err != nil {
			return err
		}
		for _, vm := range vms {
			kind := fleet.VMApply
			if vm.DeletedAt != nil {
				kind = fleet.VMDelete
			}
			if _, err := queue(ctx, q, a, db.QueueJobParams{
				HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: kind, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name, Generation: vm.Generation,
			}); err != nil {
				return err
			}
		}
		return queueDriftedAssignments(ctx, q, a)
	})
}

// Sweep deletes what has served its time: tickets, idempotency keys, throttles, browsers that do not come any more,
// lost networks, old tasks and the jobs of none.
func (c *Control) Sweep(ctx context.Context, a fleet.Actor) error {
	return c.pass(ctx, a, "sweep", func(q *db.Queries) error {
		forget := func(ctx context.Context) error { return forgetNetworks(ctx, q) }
		for _, do := range []func(context.Context) error{q.SweepTickets, q.SweepIdempotency, q.SweepThrottle, q.SweepBrowsers, q.SweepTasks, q.SweepJobs, forget} {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// VMsOf lists the VMs of hosts.
func (c *Control) VMsOf(ctx context.Context, a fleet.Actor, hosts []fleet.HostID) ([]fleet.VMID, error) {
	if err := onlySystem(a); err != nil || len(hosts) == 0 {
		return nil, err
	}
	ids, err := c.q.VMsOfHosts(ctx, texts(hosts))
	return ids, dbError(err)
}

// Believed is what is believed of a host now: that it is there, and what it says about its hypervisor.
type Believed struct{ Heard, Looked bool }

// HostsBelieved tells for every joined host what of it is within fleet.Freshness.
func (c *Control) HostsBelieved(ctx context.Context, a fleet.Actor) (map[fleet.HostID]Believed, error) {
	if err := onlySystem(a); err != nil {
		return nil, err
	}
	rows, err := c.q.HostsSeen(ctx)
	if err != nil {
		return nil, dbError(err)
	}
	hosts := make(map[fleet.HostID]Believed, len(rows))
	for _, r := range rows {
		hosts[r.HostID] = Believed{fleet.Fresh(r.SeenAt, r.Now), fleet.Fresh(r.LookedAt, r.Now)}
	}
	return hosts, nil
}
