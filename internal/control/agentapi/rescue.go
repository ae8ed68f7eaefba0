package agentapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// RecoverExpiredJobs requeues jobs whose lease has expired. It ends such jobs with too many attempts.
func (api *API) RecoverExpiredJobs(ctx context.Context, a fleet.Actor) error {
	return api.store.RunPass(ctx, a, "rescue", func(q *db.Queries) error {
		if err := endExhaustedJobs(ctx, q, nil); err != nil {
			return err
		}
		if err := requeueExpiredJobs(ctx, q, nil); err != nil {
			return err
		}
		return q.WakeDue(ctx)
	})
}

// endExhaustedJobs ends jobs that had too many attempts: those with an expired lease, or, if host is set, those of the
// ended agent session of that host. It records the failure at the jobs' subjects, because otherwise the drift pass
// would queue the same jobs again.
func endExhaustedJobs(ctx context.Context, q *db.Queries, host *string) error {
	ids, err := q.WornOut(ctx, host)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := q.LockSubject(ctx, id); err != nil {
			return err
		}
		job, err := q.LockWornOut(ctx, db.LockWornOutParams{ID: id, HostID: host})
		if errors.Is(err, pgx.ErrNoRows) {
			continue // the agent renewed the lease in between
		}
		if err != nil {
			return err
		}
		in := wire.Finish{
			Generation: job.Generation, Outcome: wire.Failed,
			Error: fmt.Sprintf("The agent claimed this job %d times and never reported the result.", job.Attempt),
		}
		state := fleet.JobFailed
		if job.Kind.IsSingleShot(job.Args) {
			in.Outcome, state = wire.Unknown, fleet.JobUnknown
		}
		e, err := recordJobEffects(ctx, q, job, in)
		if err != nil {
			return err
		}
		e.state = state
		if _, err := endJob(ctx, q, e); err != nil {
			return err
		}
	}
	return nil
}

// requeueExpiredJobs requeues jobs with an expired lease, or, if host is set, the jobs of the ended agent session of
// that host.
func requeueExpiredJobs(ctx context.Context, q *db.Queries, host *string) error {
	if err := q.ReplaceLapsed(ctx, host); err != nil {
		return err
	}
	_, err := q.ReturnLapsed(ctx, host)
	return err
}
