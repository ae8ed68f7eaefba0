package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Finish ends a job and stores the state that the host observed. If the spec has changed since the claim, it queues a
// job for the subject again. ended is the job after its end. If the result has an old epoch, Finish ignores it and
// returns Conflict.
func (api *API) Finish(ctx context.Context, a fleet.Actor, id fleet.JobID, in wire.Finish) (answer wire.FinishAnswer, ended fleet.Job, err error) {
	each, err := api.FinishAll(ctx, a, []wire.Result{{Job: id, Finish: in}})
	if err != nil {
		return answer, ended, err
	}
	return each[0].Answer, each[0].Job, nil
}

// FinishResult is what the portal did with one result of FinishAll.
type FinishResult struct {
	Answer wire.FinishAnswer
	Job    fleet.Job // current state
	Err    error     // why the result was rejected
}

// FinishAll works like Finish for several results, which do not affect each other. If all results are rejected, it
// returns the first error.
func (api *API) FinishAll(ctx context.Context, a fleet.Actor, in []wire.Result) ([]FinishResult, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return nil, err
	}
	out := make([]FinishResult, len(in))
	var ask []jobResult
	var of []int // for each element of ask, its index in in
	for i, r := range in {
		state, known := map[wire.Outcome]fleet.JobState{wire.Done: fleet.JobDone, wire.Failed: fleet.JobFailed, wire.Unknown: fleet.JobUnknown, wire.Cancelled: fleet.JobCancelled, wire.Outdated: fleet.JobQueued}[r.Outcome]
		if !known {
			out[i].Err = fleet.Errorf(fleet.Malformed, "There is no job outcome %q.", string(r.Outcome))
		} else if out[i].Err = store.CheckID(r.Job, "job"); out[i].Err == nil {
			ask, of = append(ask, jobResult{a, r.Job, state, r.Finish}), append(of, i)
		}
	}
	got, errs := api.results.processAll(ctx, ask)
	for k, i := range of {
		switch g := got[k]; {
		case errs[k] != nil:
			out[i].Err = store.UserError(errs[k])
		case g.unknown:
			out[i].Err = store.FirstErrorOf(checkSession(ctx, api.store.Queries, a), func() error { return store.NotFoundError(pgx.ErrNoRows, "job") })
		default:
			out[i] = FinishResult{g.answer, g.ended, g.refusal}
		}
	}
	if len(out) > 0 && !slices.ContainsFunc(out, func(f FinishResult) bool { return f.Err == nil }) {
		return nil, out[0].Err
	}
	return out, nil
}

// jobResult is a job result reported by an agent.
type jobResult struct {
	fleet.Actor
	job   fleet.JobID
	state fleet.JobState
	in    wire.Finish
}

// resultOutcome is what processResults did with one result.
type resultOutcome struct {
	answer  wire.FinishAnswer
	ended   fleet.Job
	refusal error
	unknown bool // the host has no such job, or the agent's session has ended
}

// processResults processes the results of many hosts in one transaction.
func (api *API) processResults(ctx context.Context, patience time.Duration, all []jobResult) (out []resultOutcome, err error) {
	var hold db.LockResultsParams
	for _, r := range all {
		hold.Ids, hold.Hosts, hold.Sessions = append(hold.Ids, string(r.job)), append(hold.Hosts, string(r.HostID)), append(hold.Sessions, hashAgentSession(r.Actor))
	}
	err = api.store.RunPipelinedTx(ctx, patience, func(t store.PipelinedTx) error {
		out = make([]resultOutcome, len(all))
		rows, err := t.LockResults(ctx, hold)
		if err != nil {
			return err
		}
		held := make(map[fleet.JobID]db.LockResultsRow, len(rows))
		for _, row := range rows {
			held[row.Job.ID] = row
		}
		var later []jobEnd
		of := map[fleet.JobID]int{}
		for i, r := range all {
			row, known := held[r.job]
			// The same batch may contain a result of another session of the host for the same job.
			if known = known && bytes.Equal(row.Session, hashAgentSession(r.Actor)); !known {
				out[i].unknown = true
				continue
			}
			if out[i].refusal = checkJobResult(row, r.in); out[i].refusal != nil {
				continue
			}
			job := row.Job
			row.Job.State = r.state // a duplicate of this result in the same batch is then rejected
			held[r.job] = row
			if r.in.Retry && r.state == fleet.JobFailed && !job.Kind.IsSingleShot(job.Args) && !job.Kind.Info().Background {
				if out[i].ended, err = requeueJobAfterPause(ctx, t.Queries, job, r.in, 5*time.Second); err != nil {
					return err
				}
				continue
			}
			if r.state == fleet.JobQueued {
				if out[i].ended, err = requeueOutdatedJob(ctx, t.Queries, job, r.in); err != nil {
					return err
				}
				continue
			}
			e, err := recordJobEffects(ctx, t.Queries, job, r.in)
			if err != nil {
				return err
			}
			if e.state = r.state; e.refused {
				e.state = fleet.JobFailed
			}
			if job.Kind == fleet.HostShutdown && e.state == fleet.JobDone {
				if err := t.RecordPowerOff(ctx, job.HostID); err != nil {
					return err
				}
			}
			// Check for a newer spec also after a deletion or a stoppable job, because a withdrawn deletion or a disk's new pool
			// may require vm.apply at once.
			if ahead := row.Generation > r.in.Generation || job.Kind == fleet.VMDelete || job.Kind.Info().Stoppable; !ahead {
				later, of[job.ID] = append(later, e), i
				continue
			}
			if out[i].ended, err = endJob(ctx, t.Queries, e); err != nil {
				return err
			}
			_, vm := job.Subject.ResourceAndID()
			if out[i].answer.Requeued, err = requeueVMIfChanged(ctx, t.Queries, fleet.VMID(vm), job.HostID, r.in.Generation); err != nil {
				return err
			}
		}
		if len(later) == 0 {
			return nil
		}
		now, err := endJobs(ctx, t.QueriesWithCommit(), t.DeferredQueries(), later)
		for _, j := range now {
			out[of[j.ID]].ended = jobFromRow(j)
		}
		return err
	})
	return out, err
}

// checkJobResult returns an error if the result is not valid for the job's current claim.
func checkJobResult(row db.LockResultsRow, in wire.Finish) error {
	if err := checkSequenceNumber(row.Number, in.Seq); err != nil {
		return err
	}
	if row.Job.State != fleet.JobRunning || row.Job.Epoch != in.Epoch {
		return fleet.Errorf(fleet.Conflict, "This job is no longer assigned to this agent.")
	}
	if in.Outcome == wire.Cancelled && row.Job.Stop == "" {
		return fleet.Errorf(fleet.Malformed, "This job was not cancelled.")
	}
	if in.Outcome == wire.Outdated && (in.Newest <= in.Epoch || in.Newest-in.Epoch > maxEpochJump || in.Newest > maxEpoch || row.Job.Kind.Info().Background) {
		return fleet.Errorf(fleet.Malformed, "The job has epoch %d, so its subject cannot have epoch %d already.", in.Epoch, in.Newest)
	}
	return nil
}

// Limits of the epochs that hosts report. The low 28 bits of an epoch are random, so a difference of maxEpochJump means
// 2^28 claims since the backup. With epochs above maxEpoch, the host's offset or the sequence might overflow 64 bits.
const (
	maxEpochJump = 1 << 56
	maxEpoch     = 1 << 61
)

// requeueOutdatedJob requeues a job that its host rejected because of a low epoch, and raises the next epochs of this
// host. This happens after the database was restored from a backup, with an older epoch sequence. The attempt does not
// count, because the host did nothing.
func requeueOutdatedJob(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) (fleet.Job, error) {
	if err := q.LiftEpochs(ctx, db.LiftEpochsParams{Host: string(job.HostID), Newest: in.Newest}); err != nil {
		return fleet.Job{}, err
	}
	in.Error = ""
	return requeueJobAfterPause(ctx, q, job, in, 100*time.Millisecond)
}

// jobEnd is the final state of a job, with the state of the object that its host observed. If typ is empty, no object's
// state is written.
type jobEnd struct {
	id              fleet.JobID
	state           fleet.JobState
	error           string
	note            string // what could not be done, as a sentence
	refused         bool   // the portal refused the host's result with the text error
	typ, object     string
	host            fleet.HostID
	generation, seq int64
	observed        any
}

// endJobs ends jobs that the transaction has locked. It writes the states of objects with the queries observed: q
// itself, or the DeferredQueries of a store.PipelinedTx.
func endJobs(ctx context.Context, q, observed *db.Queries, ends []jobEnd) ([]db.Job, error) {
	var p db.EndJobsParams
	var vms db.SettleVMsParams
	var others db.SettleAssignmentsParams
	for _, e := range ends {
		p.Ids, p.States, p.Errors = append(p.Ids, string(e.id)), append(p.States, string(e.state)), append(p.Errors, e.error)
		p.Notes = append(p.Notes, e.note)
		status, err := json.Marshal(e.observed)
		switch {
		case err != nil:
			return nil, err
		case e.typ == string(fleet.TypeVM):
			vms.Ids, vms.Hosts, vms.Statuses = append(vms.Ids, e.object), append(vms.Hosts, string(e.host)), append(vms.Statuses, string(status))
			vms.Generations, vms.Seqs = append(vms.Generations, e.generation), append(vms.Seqs, e.seq)
		case e.typ != "":
			others.Nouns, others.Ids = append(others.Nouns, e.typ), append(others.Ids, e.object)
			others.Hosts, others.Statuses = append(others.Hosts, string(e.host)), append(others.Statuses, string(status))
			others.Generations, others.Seqs = append(others.Generations, e.generation), append(others.Seqs, e.seq)
		}
	}
	if len(vms.Ids) > 0 {
		if err := observed.SettleVMs(ctx, vms); err != nil {
			return nil, err
		}
	}
	if len(others.Ids) > 0 {
		if err := observed.SettleAssignments(ctx, others); err != nil {
			return nil, err
		}
	}
	return q.EndJobs(ctx, p)
}

func endJob(ctx context.Context, q *db.Queries, e jobEnd) (fleet.Job, error) {
	now, err := endJobs(ctx, q, q, []jobEnd{e})
	if err != nil || len(now) == 0 {
		return fleet.Job{}, err
	}
	return jobFromRow(now[0]), nil
}

func jobFromRow(r db.Job) fleet.Job {
	return fleet.Job{ID: r.ID, Kind: r.Kind, State: r.State, StartedAt: r.StartedAt, EndedAt: r.EndedAt}
}

// requeueJobAfterPause puts a job that its host could not run into the queue for a retry. If a newer job for the subject
// is queued, it cancels the job instead. pause is the delay before the first retry.
func requeueJobAfterPause(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish, pause time.Duration) (fleet.Job, error) {
	next, err := q.Overtaken(ctx, job.ID)
	if err == nil && next {
		return endJob(ctx, q, jobEnd{id: job.ID, state: fleet.JobCancelled, error: strings.TrimSpace("Replaced by a newer order. " + in.Error)})
	}
	if err != nil {
		return fleet.Job{}, err
	}
	waits, err := q.TryAgain(ctx, db.TryAgainParams{ID: job.ID, Error: in.Error, Pause: pause})
	return jobFromRow(waits), err
}

// recordJobEffects writes what the end of a job changes besides the job and the object's observed state. It returns the
// jobEnd with which endJobs writes both; the caller sets the job's state in it.
func recordJobEffects(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) (jobEnd, error) {
	e := jobEnd{id: job.ID, error: in.Error}
	if job.Kind == fleet.VMPlan {
		return e, storePlanAnswer(ctx, q, job, in)
	}
	if job.Kind == fleet.VMExec {
		return e, storeGuestProgramOutput(ctx, q, job, in)
	}
	if job.Kind.Info().Background || job.Kind.Info().UsesGuest {
		return e, nil
	}
	if job.Kind == fleet.DiscoveredAdopt && in.Outcome == wire.Done {
		refusal, err := adoptReportedVM(ctx, q, job, in)
		e.refused, e.error = refusal != "", refusal
		return e, err
	}
	if _, discovered := job.Subject.DiscoveredVM(); discovered { // the host's next report has the state of an unmanaged domain
		return e, nil
	}
	typ, id := job.Subject.ResourceAndID()
	if job.Kind == fleet.HostAgentUpgrade && in.Outcome == wire.Done {
		refusal, err := missingVersion(ctx, q, job)
		e.refused, e.error = refusal != "", refusal
		return e, err
	}
	if typ == string(fleet.TypeHost) { // a power command: the host's next report, or its silence, has the effect
		return e, nil
	}
	var observed any
	var stays bool
	var err error
	if n := assign.AssignableTypeByName(typ); n != nil {
		observed, stays, err = n.RecordJobEnd(ctx, q, job, id, in)
		// The result of a volume job reports the state of the volume's pool. Its generation is 0, because the job did not
		// apply the pool's spec.
	} else if ref, ok := job.Subject.Volume(); ok {
		typ, id, in.Generation = string(fleet.TypePool), string(ref.PoolID), 0
		observed, stays = in.Pool, in.Pool != nil
		if in.Outcome == wire.Done {
			err = recordImageVersionFacts(ctx, q, job, ref, reportedVolumes(in.Pool))
		}
		if err == nil {
			err = noteUndeletedOldVolume(ctx, q, job, ref, in)
		}
		if job.Kind == fleet.VolumeUpload && in.Outcome == wire.Done && job.Args.Volume != nil {
			e.note = "uploaded " + fleet.FormatBytes(job.Args.Volume.SizeBytes)
		}
		if err == nil && (job.Kind == fleet.VolumeSend || job.Kind == fleet.VolumeReceive) {
			err = recordTransferJobEnd(ctx, q, job, in)
		}
	} else {
		observed, stays, err = in.VM, in.VM != nil, recordVMJobEnd(ctx, q, job, fleet.VMID(id), in)
	}
	if in.VM != nil && in.Outcome == wire.Done && job.Kind.Info().AppliesSpec {
		e.note = in.VM.PendingUnplugText()
	}
	if err == nil && job.Kind == fleet.VMMigrate && job.Args.Migrate != nil && in.Outcome == wire.Done {
		if e.note, err = migratedNote(ctx, q, job); err != nil {
			return e, err
		}
	}
	if stays {
		e.typ, e.object, e.host, e.generation, e.seq, e.observed = typ, id, job.HostID, in.Generation, in.Seq, observed
	}
	return e, err
}

// missingVersion returns why an upgrade of an agent is not done although the agent says so; empty: its host has reported
// the new version.
func missingVersion(ctx context.Context, q *db.Queries, job db.Job) (string, error) {
	version, err := q.AgentVersionOf(ctx, job.HostID)
	if err != nil || job.Args.Upgrade == nil || version == job.Args.Upgrade.Version {
		return "", err
	}
	return fmt.Sprintf("The host reports version %s after the upgrade to version %s.", version, job.Args.Upgrade.Version), nil
}

func recordVMJobEnd(ctx context.Context, q *db.Queries, job db.Job, vm fleet.VMID, in wire.Finish) error {
	if job.Kind == fleet.VMDelete {
		if in.Outcome == wire.Done {
			_, err := q.RemoveVM(ctx, db.RemoveVMParams{ID: vm, HostID: job.HostID})
			return err
		}
		// The deletion failed and the VM still exists. Withdraw the deletion, so that users see the error and can delete the
		// VM again.
		if err := q.UndoDeletion(ctx, db.UndoDeletionParams{ID: vm, HostID: job.HostID}); err != nil {
			return err
		}
		// The host still has the VM's domain, so vm.apply cannot create deleted disks again. Requeue changes that the
		// deletion cancelled.
		if in.VM != nil && in.VM.Power != fleet.Absent {
			if err := q.ReissueChange(ctx, db.ReissueChangeParams{ID: vm, HostID: job.HostID}); err != nil {
				return err
			}
		}
	}
	if job.Kind == fleet.VMRelease {
		return forgetReleasedVM(ctx, q, job, vm, in)
	}
	if job.Kind == fleet.VMDiskMove { // a failed or cancelled disk move leaves the VM unchanged
		return finishDiskMigration(ctx, q, job, vm, in)
	}
	switch job.Kind {
	case fleet.VMMigrate, fleet.VMReceive, fleet.VMFirmwareReceive:
		return recordTransferJobEnd(ctx, q, job, in)
	case fleet.VMFirmwareDiscard:
		return nil
	}
	if err := queueOldDiskDeletion(ctx, q, job, vm, in); err != nil {
		return err
	}
	if in.VM == nil && in.Outcome != wire.Done {
		err := q.FailVM(ctx, db.FailVMParams{ID: vm, HostID: job.HostID, Generation: in.Generation, Error: in.Error, Kind: string(job.Kind)})
		if err != nil {
			return err
		}
	}
	if in.Outcome != wire.Done && job.Kind == fleet.VMApply && (in.VM == nil && in.Generation <= 1 || in.VM != nil && in.VM.Power == fleet.Absent) {
		return q.CancelWaiting(ctx, db.CancelWaitingParams{
			Subject: job.Subject, HostID: job.HostID, Kinds: store.ToStrings(store.PowerJobKinds), Error: "Not tried: the VM could not be created.",
		})
	}
	return nil
}

// requeueVMIfChanged queues vm.apply if the VM's generation is newer than applied, the generation that the host has
// applied, unless such a job is queued.
func requeueVMIfChanged(ctx context.Context, q *db.Queries, id fleet.VMID, host fleet.HostID, applied int64) (bool, error) {
	vm, err := q.MovedOnVM(ctx, db.MovedOnVMParams{ID: id, HostID: host, Generation: applied})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: fleet.VMApply, Subject: fleet.SubjectVM(id), SubjectName: vm.Name, Generation: vm.Generation,
	})
	return err == nil, err
}
