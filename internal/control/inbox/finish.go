package inbox

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Finish closes a job while its epoch holds, stores what the host saw after it, and queues the subject again where
// people have changed it meanwhile. ended is the job as it is now. Conflict: the epoch is over, the result counts for nothing.
func (box *Inbox) Finish(ctx context.Context, a fleet.Actor, id fleet.JobID, in wire.Finish) (answer wire.FinishAnswer, ended fleet.Job, err error) {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return answer, ended, err
	}
	state, known := map[wire.Outcome]fleet.JobState{wire.Done: fleet.JobDone, wire.Failed: fleet.JobFailed, wire.Unknown: fleet.JobUnknown}[in.Outcome]
	if !known {
		return answer, ended, fleet.Errorf(fleet.Malformed, "The outcome %q is not known.", string(in.Outcome))
	}
	if err := store.CheckID(id, "job"); err != nil {
		return answer, ended, err
	}
	err = box.store.Quick(ctx, func(t store.Quick) error {
		held, err := t.HoldResult(ctx, db.HoldResultParams{ID: id, HostID: a.HostID, Session: hashSession(a)})
		if errors.Is(err, pgx.ErrNoRows) {
			return store.FirstError(proveSession(ctx, t.Queries, a), func() error { return store.NotFound(err, "job") })
		}
		if err != nil {
			return err
		}
		job := held.Job
		if err := numberOf(held.Number, in.Seq); err != nil {
			return err
		}
		if job.State != fleet.JobRunning || job.Epoch != in.Epoch {
			return fleet.Errorf(fleet.Conflict, "This job is no longer yours.")
		}
		if in.Retry && state == fleet.JobFailed && !job.Kind.SingleShot(job.Args) {
			ended, err = tryAgain(ctx, t.Queries, job, in)
			return err
		}
		end, err := settle(ctx, t.Queries, job, in)
		if err != nil {
			return err
		}
		q, ahead := t.Queries, held.Generation > in.Generation || job.Kind == fleet.VMDelete // one that is taken back may ask for something anew
		if !ahead {
			q = t.Last()
		}
		end.State = state
		now, err := q.EndJob(ctx, end)
		if ended = jobOf(now); err == nil && ahead {
			_, vm := job.Subject.Split()
			answer.Again, err = requeue(ctx, q, fleet.VMID(vm), job.HostID, in.Generation)
		}
		return err
	})
	return answer, ended, err
}

func jobOf(r db.Job) fleet.Job {
	return fleet.Job{ID: r.ID, Kind: r.Kind, State: r.State, StartedAt: r.StartedAt, EndedAt: r.EndedAt}
}

// tryAgain gives convergent work back that failed only because the hypervisor was not reached. Nothing has ended: the subject is
// as it was, and the order stands. Where a newer one waits already, that is tried instead.
func tryAgain(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) (fleet.Job, error) {
	next, err := q.Overtaken(ctx, job.ID)
	if err == nil && next {
		ended, err := q.EndJob(ctx, db.EndJobParams{ID: job.ID, State: fleet.JobCancelled, Error: "Replaced by a newer order. " + in.Error})
		return jobOf(ended), err
	}
	if err != nil {
		return fleet.Job{}, err
	}
	waits, err := q.TryAgain(ctx, db.TryAgainParams{ID: job.ID, Error: in.Error})
	return jobOf(waits), err
}

// settle writes what a job's end means for its subject, but for what the host then saw of it: that is for the end to write, whose state
// the caller says.
func settle(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) (end db.EndJobParams, err error) {
	end = db.EndJobParams{ID: job.ID, Error: in.Error}
	if job.Kind.Is().Aside {
		return end, nil
	}
	noun, id := job.Subject.Split()
	saw, stays := any(in.VM), in.VM != nil
	if n := assign.Of(noun); n != nil {
		saw, stays, err = n.Settle(ctx, q, job, id, in)
	} else {
		err = settleVM(ctx, q, job, fleet.VMID(id), in)
	}
	if err != nil || !stays {
		return end, err
	}
	end.Noun, end.ObjectID, end.HostID, end.Generation, end.Seq = noun, id, string(job.HostID), in.Generation, in.Seq
	if saw != nil {
		end.Status, err = json.Marshal(saw)
	}
	return end, err
}

func settleVM(ctx context.Context, q *db.Queries, job db.Job, vm fleet.VMID, in wire.Finish) error {
	if job.Kind == fleet.VMDelete {
		if in.Outcome == wire.Done {
			_, err := q.RemoveVM(ctx, db.RemoveVMParams{ID: vm, HostID: job.HostID})
			return err
		}
		// The VM is still there: take the deletion back, so that people can see why and ask again.
		if err := q.UndoDeletion(ctx, db.UndoDeletionParams{ID: vm, HostID: job.HostID}); err != nil {
			return err
		}
		if in.VM != nil && in.VM.Power != fleet.Absent { // nothing of it is gone, so that nothing comes back by this
			if err := q.AskAgain(ctx, db.AskAgainParams{ID: vm, HostID: job.HostID}); err != nil {
				return err
			}
		}
	}
	if in.VM == nil && in.Outcome != wire.Done {
		err := q.FailVM(ctx, db.FailVMParams{ID: vm, HostID: job.HostID, Generation: in.Generation, Error: in.Error, Kind: string(job.Kind)})
		if err != nil {
			return err
		}
	}
	if in.Outcome != wire.Done && job.Kind == fleet.VMApply && (in.VM == nil && in.Generation <= 1 || in.VM != nil && in.VM.Power == fleet.Absent) {
		return q.CancelWaiting(ctx, db.CancelWaitingParams{
			Subject: job.Subject, HostID: job.HostID, Kinds: store.Texts(store.PowerOrders), Error: "Not tried: the VM could not be created.",
		})
	}
	return nil
}

// requeue carries a generation newer than that which the host has acted on to it, when no waiting job does.
func requeue(ctx context.Context, q *db.Queries, id fleet.VMID, host fleet.HostID, acted int64) (bool, error) {
	vm, err := q.MovedOnVM(ctx, db.MovedOnVMParams{ID: id, HostID: host, Generation: acted})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = store.Queue(ctx, q, fleet.SystemActor, db.QueueJobParams{
		HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: fleet.VMApply, Subject: fleet.SubjectVM(id), SubjectName: vm.Name, Generation: vm.Generation,
	})
	return err == nil, err
}
