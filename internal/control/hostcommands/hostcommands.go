// Package hostcommands has the use cases of commands to a host's agent: diagnostics, the agent's log, and the restart of the
// agent.
package hostcommands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/policy"
)

// HostCommands has the use cases of commands to agents. Its exported methods are use cases of control.Control.
type HostCommands struct{ store *store.Store }

// New returns the HostCommands of the store.
func New(s *store.Store) *HostCommands { return &HostCommands{s} }

// RunDiagnostics queues the collection of a host's diagnostics. site names the site's own diagnostics to run besides.
func (hc *HostCommands) RunDiagnostics(ctx context.Context, a fleet.Actor, id fleet.HostID, site []string) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	return hc.queue(ctx, a, id, fleet.ActDiagnoseHost, fleet.HostDiagnose, fleet.JobArgs{Diagnose: site}, func(_ context.Context, _ *db.Queries, h fleet.HostView) error {
		var checks fleet.Checks
		hostcommand.CheckRequested(&checks, "site", site, h.AgentSettings().Diagnostics)
		return checks.Err()
	})
}

// RequestAgentLog queues the reading of the last lines of the log of a host's agent.
func (hc *HostCommands) RequestAgentLog(ctx context.Context, a fleet.Actor, id fleet.HostID) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	return hc.queue(ctx, a, id, fleet.ActReadAgentLog, fleet.HostAgentLog, fleet.JobArgs{}, nil)
}

// RestartAgent queues the restart of a host's agent. VMs are untouched. Without force, it is refused while jobs run on the
// host that the restart would interrupt. The task is done once the new agent has connected.
func (hc *HostCommands) RestartAgent(ctx context.Context, a fleet.Actor, id fleet.HostID, force bool) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	return hc.queue(ctx, a, id, fleet.ActRestartAgent, fleet.HostAgentRestart, fleet.JobArgs{Force: force}, func(ctx context.Context, q *db.Queries, h fleet.HostView) error {
		if force {
			return nil
		}
		jobs, err := interruptedJobs(ctx, q, h.ID)
		if err != nil || len(jobs) == 0 {
			return err
		}
		return fleet.Errorf(fleet.Conflict, "The restart would interrupt %s on %s: %s. Wait until they have ended, or force the restart.",
			fleet.CountWithUnit(len(jobs), "running job"), h.Name, strings.Join(jobs[:min(len(jobs), 3)], ", "))
	})
}

// JobsInterruptedByRestart lists the running jobs of a host that a restart of its agent would interrupt, at most 100.
func (hc *HostCommands) JobsInterruptedByRestart(ctx context.Context, a fleet.Actor, id fleet.HostID) ([]string, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	jobs, err := interruptedJobs(ctx, hc.store.Queries, id)
	return jobs, store.UserError(err)
}

func interruptedJobs(ctx context.Context, q *db.Queries, id fleet.HostID) (out []string, err error) {
	rows, err := q.JobsOnHost(ctx, db.JobsOnHostParams{HostID: id, Surviving: store.ToStrings(fleet.JobKindsWhere(fleet.JobKindInfo.SurvivesAgentRestart))})
	for _, r := range rows {
		out = append(out, strings.TrimSpace(r.Kind.Info().Verb+" "+r.Name))
	}
	return out, err
}

// queue queues a command to the host's agent, after check, unless nil, has accepted it.
func (hc *HostCommands) queue(
	ctx context.Context, a fleet.Actor, id fleet.HostID, act fleet.Action, kind fleet.JobKind, args fleet.JobArgs,
	check func(context.Context, *db.Queries, fleet.HostView) error,
) (task fleet.Task, err error) {
	if err := store.CheckID(id, "host"); err != nil {
		return fleet.Task{}, err
	}
	err = hc.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.GetHost(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "host")
		}
		h := store.HostViewFromRow(row)
		if ok, why := h.Allows(act); !ok {
			return fleet.Errorf(fleet.Conflict, "%s", why)
		}
		if check != nil {
			if err := check(ctx, q, h); err != nil {
				return err
			}
		}
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{HostID: id, Kind: kind, Subject: fleet.SubjectHost(id), SubjectName: h.Name, Args: args})
		if err != nil {
			return fmt.Errorf("queue %s: %w", kind, err)
		}
		if err := store.Audit(ctx, q, a, "host."+string(act), fleet.SubjectHost(id), h.Name, auditDetail(args)); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, queued)
		return err
	})
	return task, err
}

func auditDetail(args fleet.JobArgs) string {
	switch {
	case args.Force:
		return "forced"
	case len(args.Diagnose) > 0:
		return "with " + strings.Join(args.Diagnose, ", ")
	}
	return ""
}

// OpenHostCommand returns the newest task of the kind on the host that has not ended; nil: none.
func (hc *HostCommands) OpenHostCommand(ctx context.Context, a fleet.Actor, id fleet.HostID, kind fleet.JobKind) (*fleet.Task, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	open, err := hc.store.OpenHostCommand(ctx, db.OpenHostCommandParams{Subject: fleet.SubjectHost(id), HostID: id, Kind: kind})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, store.UserError(err)
	}
	task, err := store.GetTask(ctx, hc.store.Queries, a, open)
	return &task, store.UserError(err)
}

// unclaimedCommand and lostRestart are the errors of commands that ended without an answer of the agent.
const (
	unclaimedCommand = "Not done: the host did not get this task in time. Request it again when the host is online."
	lostRestart      = "The agent did not come back within 2 minutes. Look at the host: systemctl status quantix-agent, and its log."
)

// EndStaleHostCommands cancels commands that their hosts did not get in time, and ends restarts of agents that did not come
// back.
func (hc *HostCommands) EndStaleHostCommands(ctx context.Context, a fleet.Actor) error {
	return hc.store.RunPass(ctx, a, "host commands", func(q *db.Queries) error {
		if err := q.CancelUnclaimedHostCommands(ctx, db.CancelUnclaimedHostCommandsParams{Within: hostcommand.UnclaimedFor, Error: unclaimedCommand}); err != nil {
			return err
		}
		return q.FailLostRestarts(ctx, db.FailLostRestartsParams{Within: hostcommand.RestartWithin, Error: lostRestart})
	})
}
