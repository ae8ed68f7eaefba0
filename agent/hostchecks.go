package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quantix/agent/healthcheck"
	"quantix/internal/healthevent"
	"quantix/internal/wire"
)

// Limits of the occurrences that wait for the portal. Equal occurrences within repeatPeriod count as one.
const (
	maxWaitingOccurrences = 4096
	repeatPeriod          = 10 * time.Second
)

// A check that waits for the agent's own start is repeated after startPause, and fails after startTime.
const (
	startPause = time.Second
	startTime  = 30 * time.Second
)

// hostChecks runs the health checks of the host and reports their results. Its state is lost when the agent restarts:
// each check then runs again, and its report replaces the portal's findings.
type hostChecks struct {
	checks []healthcheck.Check
	rerun  changeSignal // all checks run at once

	mu       sync.Mutex
	results  map[string]checkResult // newest result of each check
	unsent   map[string]bool        // checks whose newest result the portal does not have
	waiting  []*waitingOccurrence   // oldest first
	newest   map[healthevent.Key]*waitingOccurrence
	number   int64         // of the last waiting occurrence
	dropped  int64         // occurrences that found no place since the last report
	changed  chan struct{} // has room for one
	lastSend time.Time
}

// checkResult is the newest result of a check, and why its watch does not run; empty: it runs, or there is none.
type checkResult struct {
	healthevent.CheckReport
	unwatched string
	version   int64 // ascends with each difference
}

// report returns the result as the portal gets it. A check that runs but cannot watch is failed, with its findings.
func (r checkResult) report() healthevent.CheckReport {
	out := r.CheckReport
	if r.unwatched == "" {
		return out
	}
	if out.State == "" || out.State == healthevent.CheckOK || out.State == healthevent.CheckUnavailable && len(out.Findings) == 0 {
		out.Reason = r.unwatched
	} else {
		out.Reason += " " + r.unwatched
	}
	out.State = healthevent.CheckFailed
	out.Unread = append(slices.Clone(out.Unread), "watch")
	return out
}

type waitingOccurrence struct {
	healthevent.Occurrence
	at   time.Time
	sent bool // a report with it may have reached the portal, so it no longer counts up
}

func newHostChecks(checks []healthcheck.Check) *hostChecks {
	return &hostChecks{
		checks: checks, results: map[string]checkResult{}, unsent: map[string]bool{}, newest: map[healthevent.Key]*waitingOccurrence{},
		changed: make(chan struct{}, 1),
	}
}

// run runs all checks until ctx ends.
func (h *hostChecks) run(ctx context.Context) {
	var work sync.WaitGroup
	for _, c := range h.checks {
		if c.Run != nil {
			work.Go(func() { h.runCheck(ctx, c) })
		}
		if c.Watch != nil {
			work.Go(func() { h.watchCheck(ctx, c) })
		}
	}
	work.Wait()
}

func (h *hostChecks) runCheck(ctx context.Context, c healthcheck.Check) {
	for began := time.Now(); ctx.Err() == nil; {
		again := h.rerun.wait()
		found, err := callCheck(ctx, c)
		if ctx.Err() != nil {
			return
		}
		if _, starting := errors.AsType[healthcheck.NotYet](err); starting && time.Since(began) < startTime {
			sleepContext(ctx, startPause)
			continue
		}
		h.setResult(reportOf(c, found, err))
		select {
		case <-ctx.Done():
		case <-again:
		case <-time.After(c.Interval):
		}
	}
}

// callCheck runs a check once. A fault in the check must not end the agent, which manages guests.
func callCheck(ctx context.Context, c healthcheck.Check) (found []healthevent.Finding, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			found, err = nil, fmt.Errorf("the check has a fault: %v", fault)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.Run(limited)
}

// reportOf returns the report of a run.
func reportOf(c healthcheck.Check, found []healthevent.Finding, err error) healthevent.CheckReport {
	r := healthevent.CheckReport{Check: c.Name, State: healthevent.CheckOK, Findings: found}
	unavailable, isUnavailable := errors.AsType[healthcheck.Unavailable](err)
	partial, isPartial := errors.AsType[healthcheck.Partial](err)
	switch {
	case err == nil:
	case isUnavailable:
		r.State, r.Reason, r.Findings = healthevent.CheckUnavailable, unavailable.Error(), nil
	case isPartial:
		r.Unread, r.Reason = partial.Unread, partial.Reason
		if partial.Reason != "" {
			r.State = healthevent.CheckFailed
		}
	case errors.Is(err, context.DeadlineExceeded):
		r.State, r.Reason, r.Findings = healthevent.CheckFailed, fmt.Sprintf("The check did not end within %s.", c.Timeout), nil
	default:
		r.State, r.Reason, r.Findings = healthevent.CheckFailed, err.Error(), nil
	}
	return r
}

func (h *hostChecks) watchCheck(ctx context.Context, c healthcheck.Check) {
	for ctx.Err() == nil {
		// A watch that has not failed within a while is one that runs.
		running := time.AfterFunc(c.Timeout, func() { h.setUnwatched(c, "") })
		err := c.Watch(ctx, func(f healthevent.Finding) { h.occur(c.Name, f, 1) })
		running.Stop()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.setUnwatched(c, err.Error())
		}
		sleepContext(ctx, c.Interval)
	}
}

// setUnwatched records why the watch of a check does not run. Unless the check also runs, the watch alone is its result.
func (h *hostChecks) setUnwatched(c healthcheck.Check, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, known := h.results[c.Name]
	if !known && c.Run == nil {
		was.CheckReport = healthevent.CheckReport{Check: c.Name, State: healthevent.CheckOK}
	}
	if !known && c.Run != nil {
		was.Check = c.Name // without a state until the first run
	}
	next := was
	next.unwatched = reason
	h.store(was, next, known && was.State != "")
}

// setResult records the newest result of a check. The portal gets it if it differs from the previous one.
func (h *hostChecks) setResult(r healthevent.CheckReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.results[r.Check]
	next := was
	next.CheckReport = r
	h.store(was, next, was.State != "")
}

// store replaces a result. The caller holds the lock.
func (h *hostChecks) store(was, next checkResult, known bool) {
	if next.State != "" && (!known || next.report().DiffersFrom(was.report())) {
		next.version++
		h.unsent[next.Check] = true
		h.wake()
	}
	h.results[next.Check] = next
}

// occur records n equal occurrences. When too many wait, further ones are counted and dropped.
func (h *hostChecks) occur(check string, f healthevent.Finding, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := healthevent.Key{Check: check, Object: f.Object, Code: f.Code}
	if w := h.newest[key]; w != nil && !w.sent && time.Since(w.at) < repeatPeriod {
		w.Repeats += n
		return
	}
	if len(h.waiting) >= maxWaitingOccurrences {
		h.dropped += n
		return
	}
	h.append(key, f, n)
}

// append adds a waiting occurrence. The caller holds the lock.
func (h *hostChecks) append(key healthevent.Key, f healthevent.Finding, n int64) {
	h.number++
	w := &waitingOccurrence{Occurrence: healthevent.Occurrence{Check: key.Check, Finding: f, Repeats: n}, at: time.Now()}
	h.waiting = append(h.waiting, w)
	h.newest[key] = w
	h.wake()
}

func (h *hostChecks) wake() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// resetSession makes the next report complete: a portal that was restored from a backup may lack earlier ones.
func (h *hostChecks) resetSession() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, r := range h.results {
		h.unsent[name] = r.State != ""
	}
	h.wake()
}

// healthReport is a report with the versions of the results that it contains.
type healthReport struct {
	healthevent.Report
	versions map[string]int64
}

// next returns the next report; false: there is nothing to report.
func (h *hostChecks) next(instance string, refresh time.Duration) (healthReport, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	r := healthReport{healthevent.Report{Instance: instance}, map[string]int64{}}
	all := refresh > 0 && now.Sub(h.lastSend) >= refresh
	for _, c := range h.checks {
		result := h.results[c.Name]
		if result.State != "" && (all || h.unsent[c.Name]) && len(r.Checks) < healthevent.MaxChecks {
			r.Checks = append(r.Checks, result.report())
			r.versions[c.Name] = result.version
		}
	}
	if h.dropped > 0 && len(h.waiting) < maxWaitingOccurrences {
		h.append(healthevent.Key{Check: healthevent.AgentCheck, Code: healthevent.EventsDropped}, healthevent.Dropped(h.dropped), h.dropped)
		h.dropped = 0
	}
	n := min(len(h.waiting), healthevent.MaxOccurrences)
	for _, w := range h.waiting[:n] {
		w.sent = true
		o := w.Occurrence
		o.AgoMs = now.Sub(w.at).Milliseconds()
		r.Occurrences = append(r.Occurrences, o)
	}
	r.Number = h.number - int64(len(h.waiting)) + int64(n)
	return r, len(r.Checks)+len(r.Occurrences) > 0
}

// accepted removes what the portal has accepted.
func (h *hostChecks) accepted(r healthReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastSend = time.Now()
	for name, version := range r.versions {
		if h.results[name].version == version {
			delete(h.unsent, name)
		}
	}
	for _, w := range h.waiting[:len(r.Occurrences)] {
		key := healthevent.Key{Check: w.Check, Object: w.Finding.Object, Code: w.Finding.Code}
		if h.newest[key] == w {
			delete(h.newest, key)
		}
	}
	h.waiting = slices.Delete(h.waiting, 0, len(r.Occurrences))
}

// olderPortalPause is how long the agent sends no health report after it found that the portal lacks the path.
const olderPortalPause = 10 * time.Minute

// maxPaceGrowth limits the pause between two health reports, in multiples of the shortest one.
const maxPaceGrowth = 25

// reportPace gives the pauses after health reports. They grow while events follow one another, so that lasting events cost
// the portal few, large reports.
type reportPace struct{ shortest, next time.Duration }

func newReportPace(shortest time.Duration) *reportPace { return &reportPace{shortest, shortest} }

// quiet records that there was nothing to report.
func (p *reportPace) quiet() { p.next = p.shortest }

// pause returns the pause after an accepted report. After a full one, more events wait.
func (p *reportPace) pause(full bool) time.Duration {
	if full {
		p.quiet()
		return p.shortest
	}
	now := p.next
	p.next = min(2*now, maxPaceGrowth*p.shortest)
	return now
}

// healthReportLoop sends health reports until ctx or the session ends. Every checkRefresh it sends the results of all
// checks, so that the portal knows their age. The first event after a quiet time is sent at once.
func (a *Agent) healthReportLoop(ctx context.Context) error {
	a.checks.resetSession()
	wait, pace := newBackoff(a.timing.retry, a.timing.retryMax), newReportPace(a.timing.reportSpacing)
	for ctx.Err() == nil {
		r, any := a.checks.next(a.instance, a.timing.checkRefresh)
		if !any {
			pace.quiet()
			select {
			case <-ctx.Done():
			case <-a.checks.changed:
			case <-time.After(a.timing.checkRefresh):
			}
			continue
		}
		pause := a.timing.reportSpacing
		switch err := a.client.ReportHealth(ctx, r.Report); {
		case err == nil:
			a.checks.accepted(r)
			wait.Reset()
			pause = pace.pause(len(r.Occurrences) == healthevent.MaxOccurrences)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the session has ended
		case isSessionEnded(err):
			return err
		case wire.StatusOf(err) == 404:
			pause = olderPortalPause
		case isRefusedForever(wire.StatusOf(err)):
			a.log.Error("The portal refuses a health report; it is dropped.", "portal", errorDetail(err))
			a.checks.accepted(r)
		default:
			a.metrics.failures.WithLabelValues("health").Inc()
			pause = wait.NextBackOff()
		}
		sleepContext(ctx, pause)
	}
	return nil
}

// isRefusedForever reports whether the portal refuses a report because of its content: malformed, too large or invalid.
func isRefusedForever(status int) bool { return status == 400 || status == 413 || status == 422 }
