package hostpower

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/bmc"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// maxOffWait is how long a host may report after its agent has accepted to power it off.
const maxOffWait = 10 * time.Minute

// AdvanceTerminations begins the next step of each termination whose previous step is done. A step that has not succeeded
// cancels the later ones. The pass keeps nothing in memory, so that any portal can continue it.
func (hp *HostPower) AdvanceTerminations(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	ids, err := hp.store.OpenTerminations(ctx)
	if err != nil {
		return store.UserError(err)
	}
	var first error
	for _, id := range ids { // one that cannot advance does not stop the others
		err := hp.store.RunPgxTx(ctx, func(tx pgx.Tx) error { return hp.advance(ctx, tx, id) })
		if err != nil && first == nil {
			first = fmt.Errorf("advance termination %s: %w", id, err)
		}
	}
	return first
}

func (hp *HostPower) advance(ctx context.Context, tx pgx.Tx, id fleet.TaskID) error {
	q := db.New(tx)
	t, err := q.LockTermination(ctx, id)
	if errors.Is(err, store.NoRows) { // another portal advances it, or it has ended
		return nil
	}
	if err != nil {
		return err
	}
	steps, err := q.StepsOf(ctx, &id)
	if err != nil {
		return err
	}
	for i, s := range steps {
		switch {
		case s.Ordered && !s.State.IsFinal():
			return nil
		case s.Pending && t.HostID == nil:
			return endStep(ctx, q, s.ID, fleet.JobCancelled, "", "Not done: the host was removed meanwhile.")
		case s.Pending:
			return hp.beginStep(ctx, tx, t, *t.HostID, steps[i-1], s)
		case !s.State.IsFinal():
			return nil
		case s.State != fleet.JobDone:
			return cancelFrom(ctx, q, steps[i+1:], s.Kind)
		}
	}
	return q.SettleParent(ctx, string(id))
}

func endStep(ctx context.Context, q *db.Queries, id fleet.TaskID, state fleet.JobState, note, text string) error {
	_, err := q.EndPortalTask(ctx, db.EndPortalTaskParams{ID: id, State: state, Note: note, Error: text})
	return err
}

// cancelFrom cancels the steps after one that has not succeeded.
func cancelFrom(ctx context.Context, q *db.Queries, later []db.StepsOfRow, failed fleet.JobKind) error {
	for _, s := range later {
		if s.State.IsFinal() {
			continue
		}
		if err := endStep(ctx, q, s.ID, fleet.JobCancelled, "", fmt.Sprintf("Not done: the step %q has not succeeded.", failed.Info().Verb)); err != nil {
			return err
		}
	}
	return nil
}

// waitError is the reason why a step cannot begin yet.
type waitError struct {
	reason string
	ask    bool // the BMC is to be read now
}

func (e *waitError) Error() string { return e.reason }

func waitf(format string, args ...any) error { return &waitError{reason: fmt.Sprintf(format, args...)} }

// beginStep begins a pending step as the user who requested the termination. A refusal ends the step; a reason to wait is
// its note.
func (hp *HostPower) beginStep(ctx context.Context, tx pgx.Tx, t db.LockTerminationRow, host fleet.HostID, previous, s db.StepsOfRow) error {
	q := db.New(tx)
	err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error {
		q, ctx := db.New(sub), store.WithTx(ctx, sub)
		a, err := store.ActorNow(ctx, q, t.UserID, t.CreatedBy)
		if err != nil {
			return err
		}
		a.Address = t.Address
		view, err := lockHost(ctx, q, host)
		if err != nil {
			return err
		}
		if s.Kind == fleet.HostRemoval {
			return hp.remove(ctx, q, a, view, previous, s.ID)
		}
		return hp.powerOff(ctx, q, a, view, s)
	})
	err = store.UserError(err)
	if wait, ok := errors.AsType[*waitError](err); ok {
		if wait.ask {
			if err := store.FirstErrorOf(q.AskBMC(ctx, host), func() error { return q.WakeBMCs(ctx) }); err != nil {
				return err
			}
		}
		return q.NotePortalTask(ctx, db.NotePortalTaskParams{ID: s.ID, Note: wait.reason})
	}
	if refused, ok := errors.AsType[*fleet.Error](err); ok && refused.Code != fleet.Unavailable {
		return endStep(ctx, q, s.ID, fleet.JobFailed, "", refused.Error())
	}
	return err
}

// powerOff begins the power-off of a drained host.
func (hp *HostPower) powerOff(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, s db.StepsOfRow) error {
	switch host.Lifecycle {
	case fleet.LifecycleDraining:
		return whyDraining(ctx, q, host)
	case fleet.LifecycleMaintenance, fleet.LifecycleOffline:
	default:
		return fleet.Errorf(fleet.Conflict, "%s is not in maintenance any more.", host.Name)
	}
	if err := checkNoVMs(ctx, q, host); err != nil {
		return err
	}
	switch {
	case host.Lifecycle == fleet.LifecycleOffline && !host.HasBMC:
		return endStep(ctx, q, s.ID, fleet.JobDone, "The host was powered off already.", "")
	case s.Kind == fleet.HostShutdown && host.Lifecycle == fleet.LifecycleMaintenance:
		return hp.hosts.ShutDownHost(ctx, a, host, s.ID)
	case s.Kind == fleet.HostShutdown: // powered off meanwhile
		return endStep(ctx, q, s.ID, fleet.JobDone, "The host was powered off already.", "")
	}
	return hp.addOrder(ctx, q, a, host, fleet.ActForcePowerOff, s.ID, &s.ID)
}

// whyDraining returns why a host whose maintenance task has ended has not entered maintenance.
func whyDraining(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	running, err := UndecidedVMs(ctx, q, host.ID, *host.Maintenance)
	switch {
	case err != nil:
		return err
	case len(running) > 0:
		return waitf("waiting until %s does not run on %s any more", nameVMs(running), host.Name)
	case host.Phase != fleet.HostOnline:
		return waitf("waiting for a report of %s", host.Name)
	}
	return waitf("waiting until %s is in maintenance", host.Name)
}

func nameVMs(vms []db.VMsRunningOnRow) string {
	names := make([]string, len(vms))
	for i, vm := range vms {
		names[i] = vm.Name
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d other VMs", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// remove removes a host that is off.
func (hp *HostPower) remove(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, off db.StepsOfRow, step fleet.TaskID) error {
	if off.Kind == fleet.HostShutdown { // done means that the agent accepted the command
		late := off.EndedAt != nil && off.Now.Sub(*off.EndedAt) > maxOffWait
		if err := hp.checkIsOff(ctx, q, host, *off.EndedAt); err != nil {
			if wait, ok := errors.AsType[*waitError](err); ok && late {
				return fleet.Errorf(fleet.Conflict, "%s accepted the command to power off %d minutes ago: still %s. Power it off, then terminate it again.", host.Name, int(maxOffWait.Minutes()), wait.reason)
			}
			return err
		}
	}
	if err := checkNoVMs(ctx, q, host); err != nil {
		return err
	}
	if err := endStep(ctx, q, step, fleet.JobDone, "", ""); err != nil {
		return err
	}
	return hp.hosts.DeleteHost(ctx, a, host.ID)
}

// checkIsOff returns a waitError unless a host that was powered off at the time neither reports nor is on for its BMC.
func (hp *HostPower) checkIsOff(ctx context.Context, q *db.Queries, host fleet.HostView, at time.Time) error {
	if host.Phase != fleet.HostUnknown {
		return waitf("waiting until %s does not report any more", host.Name)
	}
	if !host.HasBMC {
		return nil
	}
	row, err := q.GetBMC(ctx, host.ID)
	if err != nil {
		return err
	}
	b := row.HostBmc
	if b.ReadAt != nil && b.ReadAt.After(at) && bmc.PowerAt(b.Reading, b.ReadAt, row.Now) == bmc.Off {
		return nil
	}
	ask := b.LeasedUntil == nil && (b.CheckedAt == nil || row.Now.Sub(*b.CheckedAt) > askEvery)
	return &waitError{reason: fmt.Sprintf("waiting until the BMC of %s reports Off", host.Name), ask: ask}
}

// askEvery is the time between two reads of the BMC of a host that is powering off.
const askEvery = 10 * time.Second
