package inbox

import (
	"cmp"
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

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
