package agent

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"quantix/agent/upgrade"
	"quantix/internal/fleet"
	"quantix/internal/release"
	"quantix/internal/wire"
)

// Upgrades is how an agent is replaced by another release.
type Upgrades struct {
	Installer *upgrade.Installer // nil: the portal cannot replace this agent, because it is no process of its own
	Begun     *upgrade.Begun     // the upgrade that was in progress when the agent started; nil: none
}

// trustedKeyIDs returns the IDs of the keys that sign releases for this host.
func (u Upgrades) trustedKeyIDs() []string {
	if u.Installer == nil {
		return nil
	}
	ids := make([]string, len(u.Installer.Keys))
	for i, k := range u.Installer.Keys {
		ids[i] = k.ID()
	}
	return ids
}

// claimGate pauses the claims of jobs.
type claimGate struct {
	closed atomic.Bool
	opened changeSignal
}

// wait waits until claims are allowed, or ctx ends.
func (g *claimGate) wait(ctx context.Context) {
	for {
		opened := g.opened.wait()
		if !g.closed.Load() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-opened:
		}
	}
}

func (g *claimGate) open() {
	g.closed.Store(false)
	g.opened.broadcast()
}

// releaseSource downloads releases from the portal.
type releaseSource struct{ client *wire.Client }

func (s releaseSource) Manifest(ctx context.Context, version string, on release.Platform) ([]byte, error) {
	out, err := s.client.ReleaseManifest(ctx, version, on.String())
	return out.Manifest, portalRefusal(err)
}

func (s releaseSource) Open(ctx context.Context, version string, on release.Platform) (io.ReadCloser, error) {
	body, err := s.client.OpenRelease(ctx, version, on.String())
	return body, portalRefusal(err)
}

// portalRefusal returns the portal's own sentence as the error.
func portalRefusal(err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return fleet.Errorf(fleet.Conflict, "%s", e.Detail)
	}
	return err
}

// upgradeAgent downloads and verifies a release, waits for the host's other jobs, and lets this agent end: the new one is
// tried next. The job has no result here. The next agent, old or new, records the result in the journal when it starts.
func upgradeAgent(ctx context.Context, a *Agent, j *job) error {
	switch {
	case j.Args.Upgrade == nil:
		return errors.New("the portal sent this job without a version")
	case a.upgrades.Installer == nil:
		return fleet.Errorf(fleet.Conflict, "This agent cannot be upgraded by the portal, because it does not run as \"quantix agent\".")
	}
	order := upgrade.Order{Job: j.ID, Version: j.Args.Upgrade.Version, AllowDowngrade: j.Args.Upgrade.AllowDowngrade}
	prepared, err := a.upgrades.Installer.Prepare(ctx, order, releaseSource{a.client}, j.notifier.notify)
	if err != nil {
		return err
	}
	a.claims.closed.Store(true)
	err = a.waitForOtherJobs(ctx, j)
	var handover *upgrade.Handover
	if err == nil {
		j.notifier.notify(80, "Starting the new agent")
		handover, err = prepared.Commit(a.reports.stateAge() < 3*a.reports.currentInterval())
	}
	if err != nil {
		a.claims.open()
		return errors.Join(err, prepared.Discard())
	}
	a.log.Warn("The agent stops for its upgrade.", "job", j.ID, "version", order.Version)
	j.cancel(errAgentStopping) // no result is sent
	a.stopRun(handover)
	return errAgentStopping
}

// waitForOtherJobs waits until no other job runs on the host, or refuses after a time.
func (a *Agent) waitForOtherJobs(ctx context.Context, j *job) error {
	limit, cancel := context.WithTimeout(ctx, a.timing.upgradeWait)
	defer cancel()
	for {
		ended := a.running.anyEnded.wait()
		verbs := a.running.verbsOfOthers(j)
		if len(verbs) == 0 {
			return nil
		}
		text := fleet.CountWithUnit(len(verbs), "other job")
		j.notifier.notify(70, "Waiting for "+text+" of this host")
		select {
		case <-ended:
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			slices.Sort(verbs)
			return fleet.Errorf(fleet.Conflict, "Not upgraded: %s did not end within %s: %s. Upgrade the agent when they have ended.",
				text, formatDuration(a.timing.upgradeWait), strings.Join(slices.Compact(verbs), ", "))
		}
	}
}

// verbsOfOthers returns the titles of all running jobs but j.
func (b *runningJobs) verbsOfOthers(j *job) (verbs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.jobs {
		if other != j {
			verbs = append(verbs, other.Kind.Info().Verb)
		}
	}
	return verbs
}

// recordFailedUpgrade records in the journal why an upgrade failed that was in progress when the agent ended.
func (a *Agent) recordFailedUpgrade() {
	b := a.upgrades.Begun
	why := b.Failure()
	if why == "" {
		return
	}
	a.log.Error("The upgrade of the agent failed.", "job", b.Job(), "error", why)
	if err := b.End(func() error { return a.journal.recordOutcome(b.Job(), wire.Failed, why, true) }); err != nil {
		a.log.Error("The outcome of the agent's upgrade cannot be recorded.", "error", err)
	}
}

// endProbation records in the journal that the upgrade to this agent is done: the portal has accepted its report.
func (a *Agent) endProbation() {
	b := a.upgrades.Begun
	if !b.OnProbation() {
		return
	}
	a.log.Info("The upgrade of the agent is done.", "job", b.Job(), "version", a.version)
	if err := b.End(func() error { return a.journal.recordOutcome(b.Job(), wire.Done, "", true) }); err != nil {
		a.log.Error("The outcome of the agent's upgrade cannot be recorded.", "error", err)
	}
}

// awaitUpgrade waits until the outcome of the job is known, if the job is the upgrade to this agent.
func (a *Agent) awaitUpgrade(j *job) {
	if j.ID != a.upgrades.Begun.Job() {
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(a.runContext, cancel)()
	a.upgrades.Begun.Wait(ctx)
}

// RunTrial opens a session with the portal and sends one complete report. It runs no job, and changes nothing on the
// host. It returns nil when the portal has accepted the report, with the hypervisor's state in it.
func (a *Agent) RunTrial(ctx context.Context) (connected bool, hypervisorError string, err error) {
	defer a.journal.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.runContext = ctx
	go a.inventoryLoop(ctx)
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	greeted := false
	for try := 1; ; {
		if !greeted && !a.sendHelloUntilAccepted(ctx) {
			return false, "", ctx.Err()
		}
		err := a.reports.report(ctx, true)
		greeted = !isSessionEnded(err)
		host := a.reports.reportedHost
		switch {
		case ctx.Err() != nil:
			return false, "", ctx.Err()
		case err != nil:
			a.log.Warn("The report did not reach the portal; trying again.", "error", err)
		case host.Connected || try == trialReports: // the hypervisor may need a moment
			return host.Connected, host.Error, nil
		default:
			try++
		}
		if !sleepContext(ctx, wait.NextBackOff()) {
			return false, "", ctx.Err()
		}
	}
}

// trialReports is the number of reports of a trial that is not connected to the hypervisor.
const trialReports = 4
