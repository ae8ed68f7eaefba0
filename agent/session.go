package agent

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"quantix/internal/wire"
)

// sendHelloUntilAccepted registers this agent at the portal and retries until the portal accepts it for the host; false:
// ctx ended first. Until then the agent changes nothing on the host, because another agent with this identity may be
// running.
func (a *Agent) sendHelloUntilAccepted(ctx context.Context) bool {
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for ctx.Err() == nil {
		renewed := a.certificateRenewed.wait()
		err := a.sendHello(ctx)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		}
		a.metrics.failures.WithLabelValues("hello").Inc()
		pace := wait.NextBackOff()
		switch wire.StatusOf(err) {
		case 409:
			a.log.Error("Another agent works with this host's identity, so this agent stays passive. Stop one of the two; if this machine is a copy, remove its data directory and join it as a host of its own.",
				"portal", errorDetail(err))
			pace = a.timing.passiveRetry
		case 401, 403:
			// The certificate may have expired. Then certificateRenewalLoop renews it while this loop retries.
			select {
			case a.certificateRefused <- struct{}{}:
			default:
			}
			a.log.Error("The portal does not accept this host's certificate.", "portal", errorDetail(err))
			pace = a.timing.passiveRetry
		default:
			a.log.Warn("The portal cannot be reached; trying again.", "error", err, "in", pace.Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pace):
		case <-renewed:
		}
	}
	return false
}

func (a *Agent) sendHello(ctx context.Context) error {
	inv, err := a.inventory.wait(ctx)
	if err != nil {
		return err
	}
	fingerprint, err := a.identity.fingerprint(inv.BootID)
	if err != nil {
		return err
	}
	answer, err := a.client.Hello(ctx, wire.Hello{Instance: a.instance, Fingerprint: fingerprint, Version: a.version})
	if err != nil {
		return err
	}
	a.seq.Store(answer.SeqBase) // lower than before if the portal was restored from a backup
	a.reports.resetSession()
	a.log.Info("The agent has opened a session with the portal.", "host", a.identity.HostID())
	return nil
}

// runSession runs the loops of one session until ctx or the session ends. Jobs run under jobsCtx, because running jobs
// outlast the session.
func (a *Agent) runSession(ctx, jobsCtx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.reports.loop(ctx) })
	g.Go(func() error { return a.reports.leaseLoop(ctx) })
	g.Go(func() error { return a.claimLoop(ctx, jobsCtx) })
	g.Go(func() error { return a.healthReportLoop(ctx) })
	if err := g.Wait(); err != nil {
		a.log.Warn("The portal has ended this agent's session; asking for a new one.", "portal", errorDetail(err))
	}
}
