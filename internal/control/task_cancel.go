package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CancelTask takes back an order that no host has begun, and one that its host can undo; a deletion is undone with it. Of a task with children it takes back those
// that nobody has begun. What brings a host to the intent that people gave cannot be cancelled: it would be queued again.
func (c *Control) CancelTask(ctx context.Context, a fleet.Actor, id fleet.TaskID) (fleet.Task, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "task"); err != nil {
		return fleet.Task{}, err
	}
	var t fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		var err error
		if t, err = store.GetTask(ctx, q, a, id); err != nil {
			return err
		}
		cancel := cancelOne
		if t.Steps != nil {
			cancel = cancelSteps
		}
		if err := cancel(ctx, q, a, t); err != nil {
			return err
		}
		if err := store.Audit(ctx, q, a, "task.cancel", t.Subject, t.SubjectName, t.Title()); err != nil {
			return err
		}
		t, err = store.GetTask(ctx, q, a, id)
		return err
	})
	if err != nil {
		return fleet.Task{}, err
	}
	return store.TaskFor(a, t), nil
}

// stoppable is all work that a host which has begun it ends when it is asked to.
var stoppable = fleet.KindsWhere(func(k fleet.Kind) bool { return k.Stoppable })

func cancelOne(ctx context.Context, q *db.Queries, a fleet.Actor, t fleet.Task) error {
	if err := q.LockOf(ctx, string(t.Subject)); err != nil {
		return err
	}
	if err := mayCancel(a, t); err != nil {
		return err
	}
	if t.Kind.Is().TakenBack {
		return stopTask(ctx, q, a, t, cancelledBy(a))
	}
	if t.Kind.Is().Stoppable && t.Attempt > 0 { // a host has begun it, and leaves all as it was
		n, err := q.StopParts(ctx, db.StopPartsParams{TaskID: &t.ID, Error: cancelledBy(a), Kinds: store.Texts(stoppable)})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.Conflict, "It is being cancelled already.")
		}
		return err
	}
	n, err := q.CancelTask(ctx, db.CancelTaskParams{ID: t.ID, Error: cancelledBy(a)})
	if err != nil {
		return err
	}
	if n == 0 {
		return fleet.Errorf(fleet.Conflict, "Only a task that still waits can be cancelled. This one is %s.", t.State)
	}
	if _, id := t.Subject.Split(); t.Kind == fleet.VMDelete {
		return q.UndoDeletion(ctx, db.UndoDeletionParams{ID: fleet.VMID(id), HostID: t.HostID})
	}
	return nil
}

// cancelSteps takes back what the portal has not asked for before what no host has begun: the one may become the other meanwhile.
func cancelSteps(ctx context.Context, q *db.Queries, a fleet.Actor, t fleet.Task) error {
	projects, err := q.StepProjects(ctx, &t.ID)
	if err != nil {
		return err
	}
	for _, id := range projects {
		if err := mayCancel(a, fleet.Task{Kind: t.Kind, State: fleet.JobQueued, ProjectID: fleet.ProjectID(id)}); err != nil {
			return err
		}
	}
	unasked, err := q.CancelUnasked(ctx, db.CancelUnaskedParams{ID: &t.ID, Error: cancelledBy(a)})
	if err != nil {
		return err
	}
	if err := q.LockSteps(ctx, &t.ID); err != nil {
		return err
	}
	waiting, err := q.CancelSteps(ctx, db.CancelStepsParams{ID: &t.ID, Error: cancelledBy(a)})
	if err != nil {
		return err
	}
	if unasked+waiting == 0 {
		return fleet.Errorf(fleet.Conflict, "Nothing of this task waits any more, so nothing of it can be cancelled.")
	}
	return q.SettleParent(ctx, string(t.ID)) // for the answer; otherwise the transaction's end does it
}

func cancelledBy(a fleet.Actor) string { return fmt.Sprintf("Cancelled by %s.", a.Name) }

// mayCancel asks for the right that the task itself took, and whether cancelling would have any effect.
func mayCancel(a fleet.Actor, t fleet.Task) error {
	if err := policy.Check(a, policy.ToCancel(t), t.ProjectID); err != nil {
		return err
	}
	if ok, why := t.Allows(fleet.ActCancel); !ok {
		return fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return nil
}
