package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quantix/agent/healthcheck"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

func hot(code string) healthevent.Finding {
	return healthevent.Finding{Object: "gpu/0", Code: code, Severity: fleet.AlarmCritical, Text: "The GPU is hot."}
}

func TestEqualOccurrencesCountAsOneUntilSent(t *testing.T) {
	t.Parallel()
	h := newHostChecks(nil)
	for range 3 {
		h.occur("gpu", hot("xid-79"), 1)
	}
	h.occur("gpu", hot("xid-48"), 1)
	r, any := h.next("run", time.Hour)
	if !any || len(r.Occurrences) != 2 || r.Occurrences[0].Repeats != 3 || r.Number != 2 {
		t.Fatalf("the report is %+v", r)
	}
	h.occur("gpu", hot("xid-79"), 1) // the portal may have stored the first ones
	if again, _ := h.next("run", time.Hour); len(again.Occurrences) != 3 || again.Occurrences[0].Repeats != 3 || again.Number != 3 {
		t.Errorf("the repeated report is %+v", again)
	}
	h.accepted(r)
	if rest, _ := h.next("run", time.Hour); len(rest.Occurrences) != 1 || rest.Number != 3 {
		t.Errorf("the rest is %+v", rest)
	}
}

// TestOccurrenceStormIsBoundedAndShown sends 100,000 different occurrences while the portal is away.
func TestOccurrenceStormIsBoundedAndShown(t *testing.T) {
	t.Parallel()
	h := newHostChecks(nil)
	const storm = 100_000
	for i := range storm {
		h.occur("gpu", hot(fmt.Sprint("xid-", i)), 1)
	}
	if len(h.waiting) != maxWaitingOccurrences || len(h.newest) != maxWaitingOccurrences {
		t.Fatalf("%d occurrences wait", len(h.waiting))
	}
	sent, dropped := 0, 0.0
	for {
		r, any := h.next("run", 0)
		if !any {
			break
		}
		if len(r.Occurrences) > healthevent.MaxOccurrences {
			t.Fatalf("a report has %d occurrences", len(r.Occurrences))
		}
		for _, o := range r.Occurrences {
			if o.Finding.Code == healthevent.EventsDropped {
				dropped += o.Finding.Values["dropped"]
				continue
			}
			sent++
		}
		h.accepted(r)
	}
	if sent != maxWaitingOccurrences || dropped != storm-maxWaitingOccurrences || len(h.newest) != 0 {
		t.Errorf("%d were sent and %.0f shown as dropped", sent, dropped)
	}
}

func TestChangeDuringSendIsSentAgain(t *testing.T) {
	t.Parallel()
	h := newHostChecks([]healthcheck.Check{{Name: "smart"}})
	result := func(severity fleet.AlarmSeverity, temperature float64) healthevent.CheckReport {
		return healthevent.CheckReport{Check: "smart", State: healthevent.CheckOK, Findings: []healthevent.Finding{{
			Object: "disk/sda", Code: "disk-hot", Severity: severity, Text: "hot", Values: map[string]float64{"temperature": temperature},
		}}}
	}
	h.setResult(result(fleet.AlarmWarning, 61))
	r, _ := h.next("run", time.Hour)
	h.setResult(result(fleet.AlarmCritical, 75))
	h.accepted(r)
	r, any := h.next("run", time.Hour)
	if !any || r.Checks[0].Findings[0].Severity != fleet.AlarmCritical {
		t.Fatalf("the change is not sent: %+v", r)
	}
	h.accepted(r)
	h.setResult(result(fleet.AlarmCritical, 76))
	if r, any := h.next("run", time.Hour); any {
		t.Errorf("another value alone is sent: %+v", r)
	}
}

func TestFailureOfWatchKeepsFindingsOfRun(t *testing.T) {
	t.Parallel()
	c := healthcheck.Check{Name: "gpu", Run: func(context.Context) ([]healthevent.Finding, error) { return nil, nil }}
	h := newHostChecks([]healthcheck.Check{c})
	h.setUnwatched(c, "The kernel log cannot be read.")
	if _, any := h.next("run", 0); any {
		t.Error("a check without a run is reported")
	}
	h.setResult(healthevent.CheckReport{Check: "gpu", State: healthevent.CheckOK, Findings: []healthevent.Finding{hot("gpu-hot")}})
	r, _ := h.next("run", 0)
	if got := r.Checks[0]; got.State != healthevent.CheckFailed || len(got.Unread) == 0 || len(got.Findings) != 1 || !strings.Contains(got.Reason, "kernel log") {
		t.Errorf("the report is %+v", got)
	}
	h.accepted(r)
	h.setUnwatched(c, "")
	if r, any := h.next("run", 0); !any || r.Checks[0].State != healthevent.CheckOK {
		t.Errorf("the recovered watch gives %+v", r)
	}
}

// TestCheckResultsByError runs checks that end in each way, among them one that panics and one that hangs.
func TestCheckResultsByError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run    func(context.Context) ([]healthevent.Finding, error)
		state  healthevent.CheckState
		reason string
		unread []string
	}{
		"ok":          {func(context.Context) ([]healthevent.Finding, error) { return nil, nil }, healthevent.CheckOK, "", nil},
		"unavailable": {func(context.Context) ([]healthevent.Finding, error) { return nil, healthcheck.Unavailable("no disk") }, healthevent.CheckUnavailable, "no disk", nil},
		"error":       {func(context.Context) ([]healthevent.Finding, error) { return nil, errors.New("away") }, healthevent.CheckFailed, "away", nil},
		"panic":       {func(context.Context) ([]healthevent.Finding, error) { panic("index") }, healthevent.CheckFailed, "the check has a fault: index", nil},
		"partial": {func(context.Context) ([]healthevent.Finding, error) {
			return nil, healthcheck.Partial{Unread: []string{"disk/sda"}, Reason: "sda: broken"}
		}, healthevent.CheckFailed, "sda: broken", []string{"disk/sda"}},
		"asleep": {func(context.Context) ([]healthevent.Finding, error) {
			return nil, healthcheck.Partial{Unread: []string{"disk/sda"}}
		}, healthevent.CheckOK, "", []string{"disk/sda"}},
		"hangs": {func(ctx context.Context) ([]healthevent.Finding, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, healthevent.CheckFailed, "The check did not end within 1s.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				check := healthcheck.Check{Name: "smart", Interval: time.Minute, Timeout: time.Second, Run: c.run}
				found, err := callCheck(t.Context(), check)
				if got := reportOf(check, found, err); got.State != c.state || got.Reason != c.reason || !slices.Equal(got.Unread, c.unread) {
					t.Errorf("the report is %+v", got)
				}
			})
		})
	}
}

func TestChecksRunAtIntervalAndOnRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := newHostChecks([]healthcheck.Check{{Name: "clock", Interval: time.Minute, Timeout: time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
			runs++
			return nil, nil
		}}})
		ctx, stop := context.WithCancel(t.Context())
		go h.run(ctx)
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if runs != 3 {
			t.Errorf("%d runs in 150 s", runs)
		}
		h.rerun.broadcast()
		synctest.Wait()
		if runs != 4 {
			t.Errorf("%d runs after a request", runs)
		}
		stop()
		synctest.Wait()
	})
}

// TestStartingAgentReportsNoFailedCheck lets a check wait for the agent's first read of the host.
func TestStartingAgentReportsNoFailedCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := time.Now().Add(3 * time.Second)
		never := healthcheck.Check{Name: "boot", Interval: time.Minute, Timeout: time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
			return nil, healthcheck.NotYet("no answer")
		}}
		soon := healthcheck.Check{Name: "clock", Interval: time.Minute, Timeout: time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
			if time.Now().Before(ready) {
				return nil, healthcheck.NotYet("no time")
			}
			return nil, nil
		}}
		h := newHostChecks([]healthcheck.Check{never, soon})
		ctx, stop := context.WithCancel(t.Context())
		go h.run(ctx)
		states := func() string {
			synctest.Wait()
			r, _ := h.next("run", 0)
			h.accepted(r)
			var out []string
			for _, c := range r.Checks {
				out = append(out, c.Check+" "+string(c.State)+" "+c.Reason)
			}
			return strings.Join(out, ", ")
		}
		if got := states(); got != "" {
			t.Errorf("at the start: %s", got)
		}
		time.Sleep(5 * time.Second)
		if got := states(); got != "clock ok " {
			t.Errorf("after 5 s: %s", got)
		}
		time.Sleep(time.Minute)
		if got := states(); got != "boot failed no answer" {
			t.Errorf("after a minute: %s", got)
		}
		stop()
		synctest.Wait()
	})
}

func TestLastingEventsLeadToFewReports(t *testing.T) {
	t.Parallel()
	const shortest = 200 * time.Millisecond
	p := newReportPace(shortest)
	var all time.Duration
	for range 20 {
		all += p.pause(false)
	}
	if all < time.Minute || p.pause(false) != 5*time.Second {
		t.Errorf("20 reports took %s, and the next pause is %s", all, p.pause(false))
	}
	if got := p.pause(true); got != shortest {
		t.Errorf("after a full report, the pause is %s", got)
	}
	p.pause(false)
	if p.quiet(); p.pause(false) != shortest {
		t.Error("after a quiet time, the pause is not the shortest")
	}
}
