package load

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Figures are the results of a run during the time of the measurement.
type Figures struct {
	Seconds     float64                      `json:"seconds"`
	Hosts       int                          `json:"hosts"`
	VMs         int                          `json:"vms"` // number of running VMs
	Tabs        int                          `json:"tabs"`
	Beats       Timing                       `json:"beats"` // heartbeats without changes
	FullReports Timing                       `json:"fullReports"`
	Claims      int64                        `json:"claims"` // answered claims, with or without jobs
	Jobs        Timing                       `json:"jobs"`   // finished jobs
	Changed     int64                        `json:"changed"`
	Sent        int64                        `json:"told"` // changes that the portal accepted
	Resends     int64                        `json:"resends"`
	Sessions    int64                        `json:"sessions"` // number of sessions that agents had to open again
	Pages       Timing                       `json:"pages"`
	PagesOf     map[string]Timing            `json:"pagesOf"`
	Refreshes   Timing                       `json:"refreshes"` // refreshes of the tabs' live parts
	Follows     Timing                       `json:"follows"`   // time from an event to the refresh that shows it
	Portal      *ProcessUsage                `json:"portal,omitempty"`
	Postgres    *ProcessUsage                `json:"postgres,omitempty"`
	Load        *ProcessUsage                `json:"load,omitempty"` // this program itself
	Errors      int64                        `json:"errors"`
	Faults      map[string]OperationFailures `json:"faults,omitempty"`
	Sampled     int                          `json:"sampled"` // number of VMs compared with the API at the end
	Wrong       int                          `json:"wrong"`   // number of VMs whose address in the API differs from the host's last report
}

// Timing is the number of operations, their rate and their durations in milliseconds, accurate to 9 %.
type Timing struct {
	N    int64   `json:"n"`
	Rate float64 `json:"rate"` // per second
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P100 float64 `json:"max"`
}

// OperationFailures is the number of failures of one operation, and the first error text.
type OperationFailures struct {
	N    int64  `json:"n"`
	Said string `json:"said"`
}

func timingOf(t bucketCounts, over time.Duration) Timing {
	ms := func(p float64) float64 { return float64(t.quantile(p).Microseconds()) / 1000 }
	return Timing{N: t.count(), Rate: float64(t.count()) / over.Seconds(), P50: ms(.5), P99: ms(.99), P100: ms(1)}
}

func (t Timing) String() string {
	if t.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f/s, %.1f / %.1f ms", t.Rate, t.P50, t.P99)
}

// counterSnapshot holds all counters at one moment.
type counterSnapshot struct {
	at                                                 time.Time
	beats, reports, finishes, opened, refreshes, waits bucketCounts
	claims, changed, sent, resends, helloes            int64
	pages                                              map[string]bucketCounts
	portal, postgres, own                              cpuAndMemory
}

func (r *loadRun) snapshot() counterSnapshot {
	s := counterSnapshot{
		at: time.Now(), beats: r.beats.bucketCounts(), reports: r.reports.bucketCounts(), finishes: r.finishes.bucketCounts(), opened: r.opened.bucketCounts(), refreshes: r.refreshes.bucketCounts(), waits: r.waits.bucketCounts(),
		claims: r.claims.Load(), changed: r.changed.Load(), sent: r.sent.Load(), resends: r.resends.Load(), helloes: r.helloes.Load(),
		pages: map[string]bucketCounts{}, portal: r.o.Portals.usage(), postgres: r.o.Postgres.usage(), own: thisProcess().usage(),
	}
	r.pages.Range(func(kind, h any) bool { s.pages[kind.(string)] = h.(*histogram).bucketCounts(); return true })
	return s
}

// figuresBetween returns the figures between two snapshots.
func (r *loadRun) figuresBetween(a, b counterSnapshot) Figures {
	over := b.at.Sub(a.at)
	f := Figures{
		Seconds: over.Seconds(), Hosts: len(r.agents), VMs: r.runningVMs(), Tabs: int(r.streams.Load()), Beats: timingOf(b.beats.since(a.beats), over), FullReports: timingOf(b.reports.since(a.reports), over),
		Claims: b.claims - a.claims, Jobs: timingOf(b.finishes.since(a.finishes), over), Changed: b.changed - a.changed, Sent: b.sent - a.sent,
		Resends: b.resends - a.resends, Sessions: b.helloes - a.helloes, Pages: timingOf(b.opened.since(a.opened), over), PagesOf: map[string]Timing{},
		Refreshes: timingOf(b.refreshes.since(a.refreshes), over), Follows: timingOf(b.waits.since(a.waits), over),
		Portal: b.portal.since(a.portal, over), Postgres: b.postgres.since(a.postgres, over), Load: b.own.since(a.own, over),
	}
	for kind, t := range b.pages {
		f.PagesOf[kind] = timingOf(t.since(a.pages[kind]), over)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	f.Errors, f.Faults = r.all, map[string]OperationFailures{}
	for kind, n := range r.kinds {
		f.Faults[kind] = OperationFailures{n, r.texts[kind]}
	}
	return f
}

// anyFailureText returns the operation and the error text of one of the failures.
func (r *loadRun) anyFailureText() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	for kind, text := range r.texts {
		return kind + ": " + text
	}
	return "nothing failed"
}

// measure starts simulated users and tabs, and counts for the configured time.
func (r *loadRun) measure(ctx context.Context) (Figures, error) {
	active, stop := context.WithCancel(ctx)
	defer stop()
	if err := r.startSimulatedUsers(ctx, active); err != nil {
		return Figures{}, fmt.Errorf("sign the simulated users in: %w", err)
	}
	r.parked.Go(func() { r.changeVMs(active) })
	r.reset()
	first := r.snapshot()
	end := first.at.Add(r.o.For)
	for last := first; ; {
		if !pause(ctx, min(r.o.Report, time.Until(end))) {
			break
		}
		now := r.snapshot()
		if !now.at.Before(end) {
			break
		}
		r.printProgress(r.figuresBetween(last, now))
		last = now
	}
	f := r.figuresBetween(first, r.snapshot())
	stop()
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	return f, r.compareAddresses(ctx, &f)
}

// startSimulatedUsers signs the simulated users in: some open pages, the others have tabs open.
func (r *loadRun) startSimulatedUsers(ctx, active context.Context) error {
	var pools []fleet.PoolID
	page, err := r.api.Pools(ctx, fleet.Query{Limit: 20})
	if err != nil {
		return err
	}
	for _, p := range page.Items {
		pools = append(pools, p.ID)
	}
	pageKinds := r.pageKinds(pools)
	began := time.Now()
	readers := (r.o.Tabs + tabsEach - 1) / tabsEach
	err = forEach(ctx, r.o.People+readers, 2, func(ctx context.Context, i int) error {
		b, err := r.signIn(ctx, i)
		if err != nil {
			return err
		}
		if i < r.o.People {
			r.parked.Go(func() { b.browse(active, pageKinds) })
			return nil
		}
		for n := range min(tabsEach, r.o.Tabs-(i-r.o.People)*tabsEach) {
			t := &tab{browser: b, wake: make(chan struct{}, 1)}
			if err := t.open(active, []string{"/vms", "/vms?filter=state%3Arunning", "/vms?sort=-name"}[n%3]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.o.Tabs > 0 {
		if err := poll(ctx, "the tabs' streams", requestTimeout, func() (bool, error) { return r.streams.Load() >= int64(r.o.Tabs), nil }); err != nil {
			return fmt.Errorf("%w: %s", err, r.anyFailureText())
		}
	}
	if r.o.People+r.o.Tabs > 0 {
		r.progress("%d people have signed in, and %d tabs are live, after %s", r.o.People, r.o.Tabs, elapsedSince(began))
	}
	return nil
}

// changeVMs changes VMs at the configured rate.
func (r *loadRun) changeVMs(ctx context.Context) {
	if r.o.Change <= 0 {
		return
	}
	const step = 50 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for due := 0.0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due += r.o.Change * step.Seconds(); due >= 1; due-- {
			if a := r.anyAgent(); a.host.changeGuestAddress() {
				r.changed.Add(1)
				a.scheduleReport(ctx, false)
			}
		}
	}
}

// sample is the number of VMs that compare checks.
const sample = 50

// compareAddresses counts the sampled VMs whose first IP address in the API differs from the address on their host. A portal
// that is fast because it loses reports must not pass.
func (r *loadRun) compareAddresses(ctx context.Context, f *Figures) error {
	if f.VMs == 0 {
		return nil
	}
	type pick struct {
		id fleet.VMID
		on *agent
	}
	var picks []pick
	for range sample {
		id := r.anyVM()
		at := slices.IndexFunc(r.agents, func(a *agent) bool { return a.host.hasVM(id) })
		picks = append(picks, pick{id, r.agents[at]})
	}
	f.Sampled = len(picks)
	wrong := func() (n int, err error) {
		for _, p := range picks {
			vm, err := r.api.VM(ctx, p.id)
			if err != nil {
				return n, err
			}
			credentials := ""
			if vm.Status != nil && len(vm.Status.NICs) > 0 && len(vm.Status.NICs[0].Addresses) > 0 {
				credentials = vm.Status.NICs[0].Addresses[0]
			}
			if credentials != p.on.host.firstAddress(p.id) {
				n++
			}
		}
		return n, nil
	}
	for until := time.Now().Add(requestTimeout); ; { // the last reports may still be in flight
		n, err := wrong()
		f.Wrong = n
		if n == 0 || err != nil || time.Now().After(until) || !pause(ctx, time.Second) {
			return err
		}
	}
}

// printProgress prints the figures as one line.
func (r *loadRun) printProgress(f Figures) {
	line := []string{"beats " + f.Beats.String()}
	add := func(name string, t Timing) {
		if t.N > 0 {
			line = append(line, name+" "+t.String())
		}
	}
	add("changes", f.FullReports)
	add("jobs", f.Jobs)
	add("pages", f.Pages)
	add("refreshes", f.Refreshes)
	for name, u := range map[string]*ProcessUsage{"portal": f.Portal, "PostgreSQL": f.Postgres} {
		if u != nil {
			line = append(line, name+" "+u.String())
		}
	}
	slices.Sort(line[1:])
	r.progress("%s | errors %d", strings.Join(line, " | "), f.Errors)
}

// Table returns the figures as text.
func (f Figures) Table() string {
	var b strings.Builder
	row := func(what, value string) { fmt.Fprintf(&b, "  %-42s %s\n", what, value) }
	fmt.Fprintf(&b, "\n  %d hosts, %d VMs that run, %d tabs; measured for %.0f s (rate; p50 / p99)\n\n", f.Hosts, f.VMs, f.Tabs, f.Seconds)
	row("Heartbeats without a change", f.Beats.String())
	row("Full reports", f.FullReports.String())
	row("VMs that changed; of those told", fmt.Sprintf("%d; %d", f.Changed, f.Sent))
	row("Claims answered", strconv.FormatInt(f.Claims, 10))
	row("Jobs ended", f.Jobs.String())
	row("Pages", f.Pages.String())
	kinds := []string{}
	for k := range f.PagesOf {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		row("  "+k, f.PagesOf[k].String())
	}
	row("Refreshes of tabs", f.Refreshes.String())
	row("From a change to the tab that shows it", f.Follows.String())
	for _, u := range []struct {
		name string
		*ProcessUsage
	}{{"Portal", f.Portal}, {"PostgreSQL", f.Postgres}, {"This program", f.Load}} {
		if u.ProcessUsage != nil {
			row(u.name, u.ProcessUsage.String())
		}
	}
	row("Sessions opened anew; reports asked for again", fmt.Sprintf("%d; %d", f.Sessions, f.Resends))
	row("VMs that the API shows otherwise than hosts", fmt.Sprintf("%d of %d", f.Wrong, f.Sampled))
	row("Errors", strconv.FormatInt(f.Errors, 10))
	for kind, fault := range f.Faults {
		row("  "+kind, fmt.Sprintf("%d, the first: %s", fault.N, fault.Said))
	}
	return b.String()
}
