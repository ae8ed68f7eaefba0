package inbox

import (
	"context"
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
	err = box.store.Tx(ctx, func(q *db.Queries) error {
		held, err := q.HoldResult(ctx, db.HoldResultParams{ID: id, HostID: a.HostID, Session: hashSession(a)})
		if errors.Is(err, pgx.ErrNoRows) {
			return store.FirstError(proveSession(ctx, q, a), func() error { return store.NotFound(err, "job") })
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
			ended, err = tryAgain(ctx, q, job, in)
			return err
		}
		if err := settle(ctx, q, job, in); err != nil {
			return err
		}
		var ahead bool
		if ended, ahead, err = endJob(ctx, q, job, state, in); err == nil && ahead {
			_, vm := job.Subject.Split()
			answer.Again, err = requeue(ctx, q, fleet.VMID(vm), job.HostID, in.Generation)
		}
		return err
	})
	return answer, ended, err
}

// endJob closes the job and writes what the host saw of its VM. ahead: people may have changed the VM since the generation acted on.
func endJob(ctx context.Context, q *db.Queries, job db.Job, state fleet.JobState, in wire.Finish) (ended fleet.Job, ahead bool, err error) {
	noun, id := job.Subject.Split()
	ofVM := noun == "vm" && !job.Kind.Is().Aside
	if !ofVM || in.VM == nil {
		now, err := q.EndJob(ctx, db.EndJobParams{ID: job.ID, State: state, Error: in.Error})
		return jobOf(now), ofVM, err
	}
	now, err := q.EndVMJob(ctx, db.EndVMJobParams{
		ID: job.ID, State: state, Error: in.Error, VMID: fleet.VMID(id), HostID: job.HostID, Generation: in.Generation, Seq: in.Seq, Status: in.VM,
	})
	return jobOf(now.Job), now.Ahead, err
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

// settle writes what a job's end means for its subject, but what the host saw of a VM: that is written with the end.
func settle(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	noun, id := job.Subject.Split()
	if job.Kind.Is().Aside {
		return nil
	}
	if n := assign.Of(noun); n != nil {
		return n.Settle(ctx, q, job, id, in)
	}
	vm := fleet.VMID(id)
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
