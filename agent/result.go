package agent

import (
	"context"
	"errors"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// completeJob records how the job ended, reads the resulting state of the host, and returns the result for the portal;
// nil: there is no result to send.
func (a *Agent) completeJob(j *job, err error) *wire.Finish {
	single := j.Kind.IsSingleShot(j.Args)
	if err != nil && j.ctx.Err() != nil {
		// The job was interrupted, so there is no result yet. If the job may run twice, the portal sends the job again.
		// Otherwise the agent reports the job from its journal at the next start.
		return nil
	}
	out := &wire.Finish{Generation: j.Generation, Outcome: wire.Done}
	if err != nil {
		out.Outcome, out.Error = wire.Failed, err.Error()
		if words, ok := cancellationReason(err); ok {
			out.Outcome, out.Error = wire.Cancelled, words
			if left := j.Kind.Info().LeftoverText; left != "" && j.mayHaveActed {
				out.Error += " " + left
			}
		}
		if single && (errors.Is(err, errCallTimedOut) || errors.Is(err, errNoProgress) || errors.Is(err, errPanic) || errors.Is(err, hypervisor.ErrOutcomeUnknown)) {
			out.Outcome = wire.Unknown
		}
		out.Retry = !single && out.Outcome == wire.Failed && isRetryable(err)
	}
	if recordErr := handlerOfJob(j).recordState(a, j, out); recordErr != nil {
		a.log.Error("The agent's state file cannot be written.", "error", recordErr)
	}
	a.addResultingStatus(j, out)
	return out
}

// isRetryable reports whether the job failed only because the hypervisor was unreachable or did not answer in time. Any
// other error would repeat.
func isRetryable(err error) bool {
	return errors.Is(err, hypervisor.ErrUnreachable) || fleet.CodeOf(err) == fleet.Unavailable
}

// addResultingStatus adds the status after the job, and then the result's sequence number: see Agent.nextSeq.
func (a *Agent) addResultingStatus(j *job, out *wire.Finish) {
	ctx, cancel := context.WithTimeout(j.ctx, a.timing.hypervisorCallLimit)
	defer cancel()
	out.VM, out.Pool, out.Network = nil, nil, nil
	handlerOfJob(j).addStatus(ctx, a, j, out)
	out.Seq = a.nextSeq()
}

// resultFromJournal returns the result of a single-shot job that the journal already contains. Such a job never runs
// again.
func (a *Agent) resultFromJournal(j *job, old journalEntry) *wire.Finish {
	out := &wire.Finish{Generation: old.Generation, Outcome: old.Outcome, Error: old.Error}
	if out.Outcome == "" {
		out.Outcome = wire.Unknown
		what := j.Kind.Info().Type.Info().Label
		if t := j.Kind.Info().Type; t == fleet.TypeVM || t == fleet.TypeDiscovered {
			what = "VM"
		}
		out.Error = fmt.Sprintf("The agent was interrupted during this job, so its outcome is unknown. Check the %s; to try again, choose %q again.", what, j.Kind.Info().Verb)
		if err := a.journal.recordOutcome(j.ID, out.Outcome, out.Error, true); err != nil {
			a.log.Error("The journal cannot be written.", "job", j.ID, "error", err)
		}
		if err := handlerOfJob(j).recordState(a, j, out); err != nil {
			a.log.Error("The agent's state file cannot be written.", "error", err)
		}
	}
	a.addResultingStatus(j, out)
	return out
}

// reportUnreportedJobs delivers, after a restart, the journal's results that the portal does not have, including
// unknown outcomes of interrupted jobs.
func (a *Agent) reportUnreportedJobs(jobsCtx context.Context) {
	for _, e := range a.unreportedJobs {
		w := wire.Work{ID: e.ID, Kind: e.Kind, Subject: e.Subject, Epoch: e.Epoch, Generation: e.Generation}
		w.Args.DeleteDisks = e.Kind.Info().SingleShotWithData // only with DeleteDisks is such a job single-shot, and thus in the journal
		if kind, id := e.Subject.ResourceAndID(); kind == string(fleet.TypeVM) {
			w.VM = &fleet.VM{Meta: fleet.Meta{ID: fleet.VMID(id)}}
		}
		a.startJob(jobsCtx, w)
	}
	a.unreportedJobs = nil
}

// reportOutdatedEpoch reports that a job's epoch is older than the newest epoch of the same object, until the portal
// answers or the session ends. The job was not run. If the portal has given out the job again in the meantime, it
// refuses the report because of the report's epoch.
func (a *Agent) reportOutdatedEpoch(ctx context.Context, w wire.Work, newest int64) {
	out := wire.Finish{Epoch: w.Epoch, Newest: newest, Generation: w.Generation, Outcome: wire.Outdated, Seq: a.nextSeq()}
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for a.isCurrentSeq(out.Seq) {
		_, err := a.client.Finish(ctx, w.ID, out)
		status := wire.StatusOf(err)
		switch {
		case err == nil:
			return
		case status/100 == 4 && status != 401 && status != 408 && status != 429:
			a.log.Warn("The portal refused the report of an outdated epoch.", "job", w.ID, "portal", errorDetail(err))
			return
		}
		a.metrics.failures.WithLabelValues("finish").Inc()
		if !sleepContext(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// deliverResult sends a result until the portal accepts or refuses it. It returns the epoch under which the portal
// accepted the result, or 0 if the portal did not accept it.
func (a *Agent) deliverResult(j *job, out wire.Finish) (acceptedEpoch int64) {
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for j.ctx.Err() == nil && !j.lost.Load() {
		if !a.isCurrentSeq(out.Seq) {
			a.addResultingStatus(j, &out) // the finish's number belongs to an ended session: read the status again
		}
		out.Epoch = j.epoch.Load()
		_, err := a.client.Finish(j.ctx, j.ID, out)
		if err == nil {
			acceptedEpoch = out.Epoch
			break
		}
		status := wire.StatusOf(err)
		if status/100 == 4 && !a.isCurrentSeq(out.Seq) || status == 409 && j.epoch.Load() != out.Epoch {
			continue // there is a new session, or this agent got the job again
		}
		if status/100 == 4 && status != 401 && status != 408 && status != 429 {
			// A retry would not help. HTTP 409, for example, means that the portal has sent the job again, or that the
			// job has already ended.
			a.log.Warn("The portal refused a job's result.", "job", j.ID, "portal", errorDetail(err))
			break
		}
		a.metrics.failures.WithLabelValues("finish").Inc()
		if !sleepContext(j.ctx, wait.NextBackOff()) {
			return 0
		}
	}
	if j.ctx.Err() != nil {
		return 0
	}
	if err := a.journal.recordDelivered(j.ID); err != nil {
		a.log.Error("The journal cannot be written.", "job", j.ID, "error", err)
	}
	a.log.Info("A job has ended.", "job", j.ID, "kind", j.Kind, "subject", j.Subject, "outcome", out.Outcome, "error", out.Error)
	if !j.Kind.Info().Background {
		a.reports.triggerFull()
	}
	return acceptedEpoch
}
