package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CancelTask cancels a task whose job no host has begun, or whose job kind a host can stop and undo. Cancelling a
// deletion restores the VM. For a bulk task, CancelTask cancels the children that no host has begun. Jobs that apply
// the current spec cannot be cancelled, because the drift pass would queue them again.
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
		cancel := cancelJobTask
		if t.Steps != nil {
			cancel = cancelTaskSteps
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
	return store.RedactTask(a, t), nil
}

// stoppableJobKinds lists the job kinds that a host stops on request after it has begun.
var stoppableJobKinds = fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return k.Stoppable })

func cancelJobTask(ctx context.Context, q *db.Queries, a fleet.Actor, t fleet.Task) error {
	if err := q.LockOf(ctx, string(t.Subject)); err != nil {
		return err
	}
	if err := checkCancellable(a, t); err != nil {
		return err
	}
	if t.Kind.Info().CancelledAtOnce {
		return cancelStartedTask(ctx, q, a, t, cancelledByText(a))
	}
	if t.Kind.Info().Stoppable && t.Attempt > 0 { // a host has begun it and undoes it on request
		n, err := q.StopParts(ctx, db.StopPartsParams{TaskID: &t.ID, Error: cancelledByText(a), Kinds: store.ToStrings(stoppableJobKinds)})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.Conflict, "The task is being cancelled already.")
		}
		return err
	}
	n, err := q.CancelTask(ctx, db.CancelTaskParams{ID: t.ID, Error: cancelledByText(a)})
	if err != nil {
		return err
	}
	if n == 0 {
		return fleet.Errorf(fleet.Conflict, "Only a waiting task can be cancelled. This task is %s.", t.State)
	}
	if _, id := t.Subject.ResourceAndID(); t.Kind == fleet.VMDelete {
		return q.UndoDeletion(ctx, db.UndoDeletionParams{ID: fleet.VMID(id), HostID: t.HostID})
	}
	return nil
}

// cancelTaskSteps cancels the children of a bulk task. It cancels pending children before queued jobs, because another
// portal may start a pending child in between.
func cancelTaskSteps(ctx context.Context, q *db.Queries, a fleet.Actor, t fleet.Task) error {
	projects, err := q.StepProjects(ctx, &t.ID)
	if err != nil {
		return err
	}
	for _, id := range projects {
		if err := checkCancellable(a, fleet.Task{Kind: t.Kind, State: fleet.JobQueued, ProjectID: fleet.ProjectID(id)}); err != nil {
			return err
		}
	}
	if len(projects) == 0 {
		if err := checkCancellable(a, t); err != nil {
			return err
		}
	}
	unasked, err := q.CancelUnasked(ctx, db.CancelUnaskedParams{ID: &t.ID, Error: cancelledByText(a)})
	if err != nil {
		return err
	}
	if err := q.LockSteps(ctx, &t.ID); err != nil {
		return err
	}
	waiting, err := q.CancelSteps(ctx, db.CancelStepsParams{ID: &t.ID, Error: cancelledByText(a)})
	if err != nil {
		return err
	}
	if unasked+waiting == 0 {
		return fleet.Errorf(fleet.Conflict, "No job of this task is waiting, so nothing can be cancelled.")
	}
	return q.SettleParent(ctx, string(t.ID)) // for the response; otherwise the trigger at commit settles the task
}

func cancelledByText(a fleet.Actor) string { return fmt.Sprintf("Cancelled by %s.", a.Name) }

// checkCancellable refuses if the actor lacks the permission to request such a task, or if cancelling the task has no
// effect.
func checkCancellable(a fleet.Actor, t fleet.Task) error {
	if err := policy.Check(a, policy.CancelPermission(t), t.ProjectID); err != nil {
		return err
	}
	if ok, why := t.Allows(fleet.ActCancel); !ok {
		return fleet.RefusalError(why)
	}
	return nil
}
