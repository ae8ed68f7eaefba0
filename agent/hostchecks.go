package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quantix/agent/healthcheck"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/wire"
)

// Limits of the occurrences that wait for the portal. Equal occurrences within repeatPeriod count as one.
const (
	maxWaitingOccurrences = 4096
	repeatPeriod          = 10 * time.Second
)

// hostChecks runs the health checks of the host and reports their results. Its state is lost when the agent restarts:
// each check then runs again, and its report replaces the portal's findings.
type hostChecks struct {
	checks []healthcheck.Check

	mu       sync.Mutex
	results  map[string]healthevent.CheckReport // newest result of each check
	unsent   map[string]bool                    // checks whose newest result the portal does not have
	waiting  []waitingOccurrence
	number   int64 // of the last waiting occurrence
	dropped  int64
	changed  chan struct{} // has room for one
	lastSend time.Time
}

type waitingOccurrence struct {
	healthevent.Occurrence
	at   time.Time
	sent bool // a report with it may have reached the portal, so it no longer counts up
}

func newHostChecks(checks []healthcheck.Check) *hostChecks {
	return &hostChecks{checks: checks, results: map[string]healthevent.CheckReport{}, unsent: map[string]bool{}, changed: make(chan struct{}, 1)}
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
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, c.Timeout)
		found, err := c.Run(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		r := healthevent.CheckReport{Check: c.Name, State: healthevent.CheckOK, Findings: found}
		if unavailable, is := errors.AsType[healthcheck.Unavailable](err); is {
			r.State, r.Reason, r.Findings = healthevent.CheckUnavailable, unavailable.Error(), nil
		} else if err != nil {
			r.State, r.Reason, r.Findings = healthevent.CheckFailed, err.Error(), nil
			if errors.Is(err, context.DeadlineExceeded) {
				r.Reason = fmt.Sprintf("The check did not end within %s.", c.Timeout)
			}
		}
		h.setResult(r)
		sleepContext(ctx, c.Interval)
	}
}

func (h *hostChecks) watchCheck(ctx context.Context, c healthcheck.Check) {
	for ctx.Err() == nil {
		err := c.Watch(ctx, func(f healthevent.Finding) { h.occur(c.Name, f) })
		if err != nil && c.Run == nil && ctx.Err() == nil {
			r := healthevent.CheckReport{Check: c.Name, State: healthevent.CheckFailed, Reason: err.Error()}
			if _, is := errors.AsType[healthcheck.Unavailable](err); is {
				r.State = healthevent.CheckUnavailable
			}
			h.setResult(r)
		}
		sleepContext(ctx, c.Interval)
	}
}

// setResult records the newest result of a check. The portal gets it if it differs from the previous one.
func (h *hostChecks) setResult(r healthevent.CheckReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, known := h.results[r.Check]
	h.results[r.Check] = r
	if !known || was.State != r.State || was.Reason != r.Reason || len(healthevent.Diff(asConditions(was), r).Update) > 0 || !sameKeys(was, r) {
		h.unsent[r.Check] = true
		h.wake()
	}
}

func asConditions(r healthevent.CheckReport) []healthevent.Condition {
	out := make([]healthevent.Condition, len(r.Findings))
	for i, f := range r.Findings {
		out[i] = healthevent.Condition{Check: r.Check, Finding: f}
	}
	return out
}

func sameKeys(a, b healthevent.CheckReport) bool {
	d := healthevent.Diff(asConditions(a), b)
	return len(d.Raise) == 0 && len(d.Clear) == 0
}

// occur records an occurrence. When too many wait, further ones are counted and dropped.
func (h *hostChecks) occur(check string, f healthevent.Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if i := slices.IndexFunc(h.waiting, func(w waitingOccurrence) bool {
		return !w.sent && w.Check == check && w.Finding.Object == f.Object && w.Finding.Code == f.Code && now.Sub(w.at) < repeatPeriod
	}); i >= 0 {
		h.waiting[i].Repeats++
		return
	}
	if len(h.waiting) >= maxWaitingOccurrences {
		h.dropped++
		return
	}
	h.number++
	h.waiting = append(h.waiting, waitingOccurrence{healthevent.Occurrence{Check: check, Finding: f, Repeats: 1}, now, false})
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
	for name := range h.results {
		h.unsent[name] = true
	}
	h.wake()
}

// next returns the next report; false: there is nothing to report.
func (h *hostChecks) next(instance string, refresh time.Duration) (healthevent.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	r := healthevent.Report{Instance: instance, Dropped: h.dropped}
	all := refresh > 0 && now.Sub(h.lastSend) >= refresh
	for _, c := range h.checks {
		result, known := h.results[c.Name]
		if known && (all || h.unsent[c.Name]) && len(r.Checks) < healthevent.MaxChecks {
			r.Checks = append(r.Checks, result)
		}
	}
	n := min(len(h.waiting), healthevent.MaxOccurrences)
	for i := range h.waiting[:n] {
		h.waiting[i].sent = true
		o := h.waiting[i].Occurrence
		o.AgoMs = now.Sub(h.waiting[i].at).Milliseconds()
		r.Occurrences = append(r.Occurrences, o)
	}
	r.Number = h.number - int64(len(h.waiting)) + int64(n)
	return r, len(r.Checks)+len(r.Occurrences) > 0 || r.Dropped > 0
}

// accepted removes what the portal has accepted. It reports whether more waits.
func (h *hostChecks) accepted(r healthevent.Report) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastSend = time.Now()
	for _, c := range r.Checks {
		newest := h.results[c.Check]
		if newest.State == c.State && newest.Reason == c.Reason && sameKeys(newest, c) {
			delete(h.unsent, c.Check)
		}
	}
	h.waiting = slices.Delete(h.waiting, 0, len(r.Occurrences))
	h.dropped -= r.Dropped
	return len(h.waiting) > 0 || len(h.unsent) > 0
}

// olderPortalPause is how long the agent sends no health report after it found that the portal lacks the path.
const olderPortalPause = 10 * time.Minute

// healthReportLoop sends health reports until ctx or the session ends. Every checkRefresh it sends the results of all
// checks, so that the portal knows their age.
func (a *Agent) healthReportLoop(ctx context.Context) error {
	a.checks.resetSession()
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for ctx.Err() == nil {
		r, any := a.checks.next(a.instance, a.timing.checkRefresh)
		if !any {
			select {
			case <-ctx.Done():
			case <-a.checks.changed:
			case <-time.After(a.timing.checkRefresh):
			}
			continue
		}
		pause := a.timing.reportSpacing
		switch err := a.client.ReportHealth(ctx, r); {
		case err == nil:
			a.checks.accepted(r)
			wait.Reset()
		case ctx.Err() != nil:
			return nil
		case isSessionEnded(err):
			return err
		case wire.StatusOf(err) == 404:
			pause = olderPortalPause
		case fleet.CodeOf(err) == fleet.Invalid || wire.StatusOf(err) == 422:
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
