package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/hostpower"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// RequestHostPower queues the reboot or the power-off of a host in maintenance. confirmName must be the host's name. VMs
// that were left running end without a shutdown. The agent runs the command after it has reported the job's end, so a
// finished task means that the command was accepted.
func (c *Control) RequestHostPower(ctx context.Context, a fleet.Actor, id fleet.HostID, act fleet.Action, confirmName string) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return fleet.Task{}, err
	}
	kind := act.HostPowerJobKind()
	var checks fleet.Checks
	if kind == "" {
		checks.Add("action", "There is no power action %q of a host. Use reboot or shutdown.", string(act))
		return fleet.Task{}, checks.Err()
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		host, _, err := lockMaintainedHost(ctx, q, id, act)
		if err != nil {
			return err
		}
		if confirmName != host.Name {
			checks.Add("confirm", "Type the host's name, %s.", host.Name)
			return checks.Err()
		}
		if err := hostpower.CheckNothingRuns(ctx, q, host); err != nil {
			return err
		}
		other := map[fleet.JobKind]fleet.JobKind{fleet.HostReboot: fleet.HostShutdown, fleet.HostShutdown: fleet.HostReboot}[kind]
		err = q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
			Subject: fleet.SubjectHost(id), Kinds: []string{string(other)}, Error: fmt.Sprintf("Not done: %q was requested before this task started.", kind.Info().Verb),
		})
		if err != nil {
			return err
		}
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{HostID: id, Kind: kind, Subject: fleet.SubjectHost(id), SubjectName: host.Name})
		if err != nil {
			return fmt.Errorf("queue %s: %w", kind, err)
		}
		if err := store.Audit(ctx, q, a, "host."+string(act), fleet.SubjectHost(id), host.Name, ""); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, queued)
		return err
	})
	return task, err
}

// staleHostPower is the error of a power action that its host did not get in time.
const staleHostPower = "Not done: the host did not get this task in time, or its maintenance has ended. Request it again."

// cancelHostPower cancels the host's waiting reboot and power-off, so that they do not happen after the maintenance.
func cancelHostPower(ctx context.Context, q *db.Queries, id fleet.HostID) error {
	return q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
		Subject: fleet.SubjectHost(id), Kinds: []string{string(fleet.HostReboot), string(fleet.HostShutdown)}, Error: staleHostPower,
	})
}
