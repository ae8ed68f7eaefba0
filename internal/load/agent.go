package load

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Periods and limits of an agent, the same as in package agent.
const (
	reportInterval = 200 * time.Millisecond // minimum time between two reports
	minRetry       = 500 * time.Millisecond // delay before the first retry of a failed call
	maxRetry       = 5 * time.Second
	maxJobs        = 32
	maxTries       = 20 // attempts of the first hello
)

// agent is the agent of one simulated host. It uses the agent protocol in the same way as package agent. It needs few
// goroutines: one for the claim that waits for jobs, and one from a timer while a report is sent.
type agent struct {
	run      *loadRun
	id       fleet.HostID
	host     *host
	client   *wire.Client
	instance string
	seq      atomic.Int64

	reportMu   sync.Mutex // serializes reports
	sentDigest string     // digest of the newest full report that the portal accepted in this session
	full       bool       // the next report is a full report, even without changes

	flagsMu   sync.Mutex
	scheduled bool // a report is scheduled
}

func (r *loadRun) newAgent(h Host) (*agent, error) {
	credentials := wire.Credentials{Certificate: h.Certificate, CA: h.CA}
	client, err := wire.NewClient(r.o.Agents, func() wire.Credentials { return credentials })
	if err != nil {
		return nil, err
	}
	a := &agent{run: r, id: h.ID, host: newHost(h.Name), client: client, instance: rand.Text()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents = append(r.agents, a)
	r.byHost[h.ID] = a
	return a, nil
}

// serve runs the host until ctx ends. It returns after the portal has accepted the host's first report, and continues
// in the background. If the portal is busy, it retries the first hello a few times, as real agents do.
func (a *agent) serve(ctx context.Context) error {
	for wait, tries := minRetry, 1; ; wait, tries = min(2*wait, maxRetry), tries+1 {
		err := a.openSession(ctx)
		if err == nil {
			break
		}
		if tries == maxTries || !pause(ctx, wait) {
			return err
		}
	}
	a.run.parked.Go(func() {
		defer a.client.Close()
		for ctx.Err() == nil {
			a.runSession(ctx)
			for wait := minRetry; ctx.Err() == nil; wait = min(2*wait, maxRetry) {
				err := a.openSession(ctx)
				if err == nil {
					break
				}
				a.countFailure(ctx, "hello", err)
				pause(ctx, wait/2+mathrand.N(wait/2))
			}
		}
	})
	return nil
}

// openSession opens a session and sends a full report.
func (a *agent) openSession(ctx context.Context) error {
	answer, err := a.client.Hello(ctx, wire.Hello{Instance: a.instance, Fingerprint: a.instance, Version: "load"})
	if err != nil {
		return err
	}
	a.run.helloes.Add(1)
	a.seq.Store(answer.SeqBase)
	a.reportMu.Lock()
	a.sentDigest = ""
	a.reportMu.Unlock()
	return a.report(ctx, true)
}

// runSession sends heartbeats and claims jobs until ctx ends or the portal rejects the agent's session.
func (a *agent) runSession(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	due := time.Now().Add(mathrand.N(wire.ReportPeriod))
	var beat *time.Timer
	var beating sync.Mutex
	beating.Lock()
	beat = time.AfterFunc(time.Until(due), func() {
		beating.Lock()
		defer beating.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err := a.report(ctx, true); sessionEnded(err) {
			end()
		}
		for due = due.Add(wire.ReportPeriod); time.Until(due) < 0; due = due.Add(wire.ReportPeriod) {
		}
		beat.Reset(time.Until(due))
	})
	beating.Unlock()
	defer beat.Stop()
	a.claimJobs(ctx)
}

// claimJobs keeps one claim waiting at the portal, and runs the jobs that the claim returns.
func (a *agent) claimJobs(ctx context.Context) {
	wait := minRetry
	for ctx.Err() == nil {
		began := time.Now()
		got, err := a.client.Claim(ctx, wire.ClaimRequest{Max: maxJobs})
		switch {
		case ctx.Err() != nil:
			return
		case sessionEnded(err):
			a.countFailure(ctx, "claim", err)
			return
		case err != nil || len(got.Jobs) == 0 && time.Since(began) < time.Second:
			if err != nil {
				a.countFailure(ctx, "claim", err)
			}
			pause(ctx, wait/2+mathrand.N(wait/2))
			wait = min(2*wait, maxRetry)
			continue
		}
		wait = minRetry
		a.run.claims.Add(1)
		for _, w := range got.Jobs {
			a.runJob(ctx, w)
		}
	}
}

func (a *agent) runJob(ctx context.Context, w wire.Work) {
	out := a.host.runJob(w)
	out.Seq = a.seq.Add(1)
	began := time.Now()
	_, err := a.client.Finish(ctx, w.ID, out)
	if err != nil {
		a.countFailure(ctx, "finish", err)
	} else {
		a.run.finishes.add(time.Since(began))
		a.run.jobs.Add(1)
	}
	a.scheduleReport(ctx, true)
}

// scheduleReport schedules a report that follows soon. Several calls cause one report.
func (a *agent) scheduleReport(ctx context.Context, full bool) {
	a.requestFullReport(full)
	a.flagsMu.Lock()
	defer a.flagsMu.Unlock()
	if a.scheduled {
		return
	}
	a.scheduled = true
	time.AfterFunc(reportInterval, func() {
		a.flagsMu.Lock()
		a.scheduled = false
		a.flagsMu.Unlock()
		if ctx.Err() == nil {
			_ = a.report(ctx, false) // report counts the failure, and the next heartbeat repeats the report
		}
	})
}

// report sends the host's state. Only periodic reports include meters and samples.
func (a *agent) report(ctx context.Context, periodic bool) error {
	a.reportMu.Lock()
	defer a.reportMu.Unlock()
	out := wire.Report{Seq: a.seq.Add(1), StateAgeMs: 1}
	known := a.sentDigest
	if a.takeFullReportRequest() {
		known = ""
	}
	var fresh int64
	out.State, out.Digest, fresh = a.host.state(known)
	if periodic {
		out.Meters, out.Load = a.host.meters()
		if !a.run.o.WithoutSamples {
			out.Samples = a.host.samples()
		}
	}
	began := time.Now()
	answer, err := a.client.Report(ctx, out)
	if err != nil {
		a.requestFullReport(out.State != nil)
		a.countFailure(ctx, "report", err)
		return err
	}
	c := &a.run.counts
	if out.State == nil {
		c.beats.add(time.Since(began))
	} else {
		c.reports.add(time.Since(began))
		c.sent.Add(fresh)
		a.sentDigest = out.Digest
	}
	if answer.Resend {
		c.resends.Add(1)
	}
	if a.host.applyAnswer(answer) || answer.Resend {
		a.scheduleReport(ctx, answer.Resend)
	}
	return nil
}

func (a *agent) requestFullReport(full bool) {
	if full {
		a.flagsMu.Lock()
		a.full = true
		a.flagsMu.Unlock()
	}
}

func (a *agent) takeFullReportRequest() (full bool) {
	a.flagsMu.Lock()
	defer a.flagsMu.Unlock()
	full, a.full = a.full, false
	return full
}

// countFailure counts a failure, unless the failure comes from the end of the run.
func (a *agent) countFailure(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		a.run.addFailure(what, err)
	}
}

// sessionEnded reports whether err means that the portal no longer accepts this agent's session.
func sessionEnded(err error) bool {
	s := wire.StatusOf(err)
	return s == 409 || s == 401
}
