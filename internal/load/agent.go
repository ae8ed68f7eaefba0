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

// Periods of an agent, as package agent has them.
const (
	spacing   = 200 * time.Millisecond // between two reports
	firstWait = 500 * time.Millisecond // before a failed call is tried again
	lastWait  = 5 * time.Second
	mostJobs  = 32
	mostTries = 20 // of a first hello
)

// agent speaks for one made-up host as package agent does for a real one, in as few goroutines as that takes: one parks the claim, and a
// timer makes one for as long as a report is under way.
type agent struct {
	run      *run
	id       fleet.HostID
	host     *host
	client   *wire.Client
	instance string
	seq      atomic.Int64

	turn sync.Mutex // reports go one after the other
	told string     // digest of the newest full report that was taken in this session
	full bool       // the next report is a full one, changed or not

	wish  sync.Mutex
	poked bool // a report is on its way to its turn
}

func (r *run) newAgent(h Host) (*agent, error) {
	shown := wire.Credentials{Certificate: h.Certificate, CA: h.CA}
	client, err := wire.NewClient(r.o.Agents, func() wire.Credentials { return shown })
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

// live speaks for the host until ctx ends. It returns once the portal has the host's first report, and goes on behind. A portal that has
// much to do is asked again a few times, as agents do.
func (a *agent) live(ctx context.Context) error {
	for wait, tries := firstWait, 1; ; wait, tries = min(2*wait, lastWait), tries+1 {
		err := a.hello(ctx)
		if err == nil {
			break
		}
		if tries == mostTries || !pause(ctx, wait) {
			return err
		}
	}
	a.run.parked.Go(func() {
		defer a.client.Close()
		for ctx.Err() == nil {
			a.session(ctx)
			for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, lastWait) {
				err := a.hello(ctx)
				if err == nil {
					break
				}
				a.fault(ctx, "hello", err)
				pause(ctx, wait/2+mathrand.N(wait/2))
			}
		}
	})
	return nil
}

// hello opens a session and tells all of the host.
func (a *agent) hello(ctx context.Context) error {
	answer, err := a.client.Hello(ctx, wire.Hello{Instance: a.instance, Fingerprint: a.instance, Version: "load"})
	if err != nil {
		return err
	}
	a.run.helloes.Add(1)
	a.seq.Store(answer.SeqBase)
	a.turn.Lock()
	a.told = ""
	a.turn.Unlock()
	return a.report(ctx, true)
}

// session beats and claims until the portal no longer takes this agent for the host's, or ctx ends.
func (a *agent) session(ctx context.Context) {
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
		if err := a.report(ctx, true); over(err) {
			end()
		}
		for due = due.Add(wire.ReportPeriod); time.Until(due) < 0; due = due.Add(wire.ReportPeriod) {
		}
		beat.Reset(time.Until(due))
	})
	beating.Unlock()
	defer beat.Stop()
	a.claims(ctx)
}

// claims keeps one claim parked, and does what it brings.
func (a *agent) claims(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		got, err := a.client.Claim(ctx, wire.ClaimRequest{Max: mostJobs})
		switch {
		case ctx.Err() != nil:
			return
		case over(err):
			a.fault(ctx, "claim", err)
			return
		case err != nil || len(got.Jobs) == 0 && time.Since(began) < time.Second:
			if err != nil {
				a.fault(ctx, "claim", err)
			}
			pause(ctx, wait/2+mathrand.N(wait/2))
			wait = min(2*wait, lastWait)
			continue
		}
		wait = firstWait
		a.run.claims.Add(1)
		for _, w := range got.Jobs {
			a.work(ctx, w)
		}
	}
}

func (a *agent) work(ctx context.Context, w wire.Work) {
	out := a.host.do(w)
	out.Seq = a.seq.Add(1)
	began := time.Now()
	_, err := a.client.Finish(ctx, w.ID, out)
	if err != nil {
		a.fault(ctx, "finish", err)
	} else {
		a.run.finishes.add(time.Since(began))
		a.run.jobs.Add(1)
	}
	a.poke(ctx, true)
}

// poke asks for a report soon; many pokes make one.
func (a *agent) poke(ctx context.Context, full bool) {
	a.turnFull(full)
	a.wish.Lock()
	defer a.wish.Unlock()
	if a.poked {
		return
	}
	a.poked = true
	time.AfterFunc(spacing, func() {
		a.wish.Lock()
		a.poked = false
		a.wish.Unlock()
		if ctx.Err() == nil {
			_ = a.report(ctx, false) // counted as a fault there; the next beat tells the same
		}
	})
}

// report tells how the host is. periodic: with meters.
func (a *agent) report(ctx context.Context, periodic bool) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	out := wire.Report{Seq: a.seq.Add(1), LookedAgoMs: 1}
	known := a.told
	if a.takeFull() {
		known = ""
	}
	var fresh int64
	out.State, out.Digest, fresh = a.host.state(known)
	if periodic {
		out.Meters, out.Load = a.host.meters()
	}
	began := time.Now()
	answer, err := a.client.Report(ctx, out)
	if err != nil {
		a.turnFull(out.State != nil)
		a.fault(ctx, "report", err)
		return err
	}
	c := &a.run.counts
	if out.State == nil {
		c.beats.add(time.Since(began))
	} else {
		c.reports.add(time.Since(began))
		c.told.Add(fresh)
		a.told = out.Digest
	}
	if answer.Resend {
		c.resends.Add(1)
	}
	if a.host.heed(answer) || answer.Resend {
		a.poke(ctx, answer.Resend)
	}
	return nil
}

func (a *agent) turnFull(full bool) {
	if full {
		a.wish.Lock()
		a.full = true
		a.wish.Unlock()
	}
}

func (a *agent) takeFull() (full bool) {
	a.wish.Lock()
	defer a.wish.Unlock()
	full, a.full = a.full, false
	return full
}

// fault counts what failed, unless the run was ending.
func (a *agent) fault(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		a.run.fault(what, err)
	}
}

// over says that the portal no longer takes this agent for the host's.
func over(err error) bool {
	s := wire.StatusOf(err)
	return s == 409 || s == 401
}
