package agentapi

import (
	"cmp"
	"context"
	"encoding/json"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// storeGuestProgramOutput stores the output of a guest program with the program's task.
func storeGuestProgramOutput(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	if in.Output == nil || job.TaskID == nil {
		return nil
	}
	text, err := json.Marshal(in.Output)
	if err != nil {
		return err
	}
	return q.EndGuestRun(ctx, db.EndGuestRunParams{TaskID: *job.TaskID, Output: text})
}

// storePlanAnswer stores the host's answer to a plan, cut to its maximum size.
func storePlanAnswer(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	d := fleet.DefinitionDiff{Error: in.Error}
	if in.Outcome == wire.Done && in.Drawing != nil {
		d = *in.Drawing
	} else {
		d.Error = cmp.Or(d.Error, "The host's agent gave no answer.")
	}
	d = d.Bounded()
	return q.AnswerPlan(ctx, db.AnswerPlanParams{ID: job.Args.Plan, HostID: job.HostID, Drawing: &d, Failed: d.Error != ""})
}
