package agentapi

import (
	"cmp"
	"context"
	"encoding/json"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// keepOutput keeps what a program in a guest wrote, with its task.
func keepOutput(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	if in.Output == nil || job.TaskID == nil {
		return nil
	}
	text, err := json.Marshal(in.Output)
	if err != nil {
		return err
	}
	return q.EndGuestRun(ctx, db.EndGuestRunParams{TaskID: *job.TaskID, Output: text})
}

// answerPlan keeps what the host said of a plan that was asked of it, as far as it is as long as may be.
func answerPlan(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	d := fleet.Drawing{Error: in.Error}
	if in.Outcome == wire.Done && in.Drawing != nil {
		d = *in.Drawing
	} else {
		d.Error = cmp.Or(d.Error, "The host's agent gave no answer.")
	}
	d = d.Bounded()
	return q.AnswerPlan(ctx, db.AnswerPlanParams{ID: job.Args.Plan, HostID: job.HostID, Drawing: &d, Failed: d.Error != ""})
}
