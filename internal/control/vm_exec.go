package control

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// storeGuestProgram stores the part of a guest program that everybody may see with its task. It also stores the
// complete program, encrypted, until the job ends.
func (c *Control) storeGuestProgram(ctx context.Context, q *db.Queries, task fleet.TaskID, vm fleet.VMID, in GuestRequest, seconds int) error {
	text, err := json.Marshal(in.publicProgram())
	if err != nil {
		return err
	}
	if err := c.storeGuestSecret(ctx, q, fleet.JobID(task), string(text)); err != nil {
		return err
	}
	run := fleet.GuestRun{Program: in.Program, Args: len(in.Args), Seconds: seconds}
	if err := q.AddGuestRun(ctx, db.AddGuestRunParams{TaskID: task, VMID: vm, Result: run}); err != nil {
		return err
	}
	return q.DropGuestRuns(ctx, db.DropGuestRunsParams{VMID: vm, Keep: fleet.MaxGuestRuns})
}

// GuestRun returns the program that the task ran in a guest, and its result. Only people who may run programs in the
// guest get the output.
func (c *Control) GuestRun(ctx context.Context, a fleet.Actor, id fleet.TaskID) (fleet.GuestRun, error) {
	none := fleet.GuestRun{}
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return none, err
	}
	if err := store.CheckID(id, "task"); err != nil {
		return none, err
	}
	task, err := store.GetTask(ctx, c.store.Queries, a, id)
	if err != nil {
		return none, err
	}
	if task.Kind != fleet.VMExec {
		return none, fleet.Errorf(fleet.NotFound, "This task runs no program in a guest.")
	}
	if err := policy.Check(a, policy.VMChange, task.ProjectID); err != nil {
		return none, err
	}
	run, err := c.store.GuestRun(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return none, fleet.Errorf(fleet.NotFound, "The output of this program is no longer stored: Quantix stores only the output of the newest %d runs of each VM.", fleet.MaxGuestRuns)
	}
	return run, store.UserError(err)
}
