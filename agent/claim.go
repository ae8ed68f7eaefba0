package agent

import (
	"context"
	"time"

	"quantix/internal/wire"
)

// Limits of claimed jobs. maxQueuedJobs is large, so that slow jobs never prevent the claim of a console job. While a
// job waits for a slot, the agent renews the job's lease and keeps its claim open at the portal.
const (
	maxQueuedJobs   = 256
	maxJobsPerClaim = 32
)

// claimLoop keeps one claim, a long poll for jobs, open at the portal and starts the jobs that the portal returns. Jobs
// run under jobsCtx.
func (a *Agent) claimLoop(ctx, jobsCtx context.Context) error {
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for ctx.Err() == nil {
		a.claims.wait(ctx)
		room := maxQueuedJobs - a.running.len()
		if room <= 0 {
			select {
			case <-ctx.Done():
			case <-a.running.jobEnded:
			}
			continue
		}
		began := time.Now()
		got, err := a.client.Claim(ctx, wire.ClaimRequest{Max: min(room, maxJobsPerClaim)})
		switch {
		case ctx.Err() != nil && err != nil: // the agent stops: no failure
			return nil //nolint:nilerr // the agent is to stop: no failure
		case isSessionEnded(err):
			return err
		case err != nil:
			a.metrics.failures.WithLabelValues("claim").Inc()
			a.log.Warn("Work could not be claimed; trying again.", "error", err)
			if !sleepContext(ctx, wait.NextBackOff()) {
				return nil
			}
			continue
		}
		if len(got.Jobs) == 0 && time.Since(began) < time.Second {
			// A portal that shuts down answers its open claims at once. The pause protects the next portal from a burst
			// of claims.
			if !sleepContext(ctx, wait.NextBackOff()) {
				return nil
			}
			continue
		}
		wait.Reset()
		for _, w := range got.Jobs {
			a.startJob(jobsCtx, w)
		}
	}
	return nil
}

// startJob registers a claimed job and runs it.
func (a *Agent) startJob(jobsCtx context.Context, w wire.Work) {
	j, newest := a.running.acceptJob(jobsCtx, w)
	if newest > 0 {
		a.log.Warn("A job with an outdated epoch was refused. This happens after the portal's database was restored; the portal gives out the job again.",
			"job", w.ID, "subject", w.Subject, "epoch", w.Epoch, "newest", newest)
		a.jobGoroutines.Go(func() { a.reportOutdatedEpoch(jobsCtx, w, newest) })
	}
	if j == nil {
		return
	}
	j.notifier.send = func(p wire.Progress) { a.progress(j, p) }
	a.jobGoroutines.Go(func() { a.runQueuedJob(jobsCtx, j) })
}

// runQueuedJob waits for earlier jobs of the same object and for a slot, runs the job, and delivers the result.
func (a *Agent) runQueuedJob(jobsCtx context.Context, j *job) {
	var acceptedEpoch int64
	defer func() {
		if again := a.running.removeJob(j, acceptedEpoch); again != nil {
			a.startJob(jobsCtx, *again)
		}
	}()
	out := a.runAfterPreviousJob(j)
	close(j.done)
	if out != nil && out.Outcome == wire.Done && j.handOver != nil {
		j.handOver()
		return
	}
	if out != nil {
		acceptedEpoch = a.deliverResult(j, *out)
	}
	if acceptedEpoch > 0 && j.afterwards != nil && out.Outcome == wire.Done {
		j.afterwards()
	}
}

// runAfterPreviousJob runs the job once the previous job of the same object has ended and a slot is free; nil: there is
// no result.
func (a *Agent) runAfterPreviousJob(j *job) *wire.Finish {
	if j.previous != nil {
		<-j.previous.done
		j.previous = nil
	}
	if j.Kind.Info().TakesSlot {
		if !a.slots.TryAcquire(1) {
			j.notifier.notify(0, "Waiting for other jobs of this host")
			if err := a.acquireJobSlot(j); err != nil {
				if _, ok := cancellationReason(err); ok {
					return a.completeJob(j, err)
				}
				return nil
			}
		}
		defer a.slots.Release(1)
	}
	if a.runContext.Err() != nil {
		return nil
	}
	defer j.notifier.stop()
	began := time.Now()
	out := a.runJobOnce(j)
	if out != nil {
		a.metrics.recordJob(j.Kind, out.Outcome, time.Since(began))
	}
	return out
}

// acquireJobSlot waits for a free slot, or until a user cancels the job.
func (a *Agent) acquireJobSlot(j *job) error {
	ctx, cancel := context.WithCancelCause(j.ctx)
	defer cancel(nil)
	if j.Kind.Info().Stoppable {
		defer j.whenStopped(func(cause error) { cancel(cause) })()
	}
	if a.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}
