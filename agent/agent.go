package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Options are what an agent is made of. All but Memory, Links, Slots, Log and Metrics are needed.
type Options struct {
	Identity   *Identity
	Client     *wire.Client // from Identity.Client
	Hypervisor Hypervisor
	Inventory  func(context.Context) (fleet.Inventory, error)            // the hardware; asked at the start, each ten minutes and on RefreshInventory
	NICs       func() []fleet.HostNIC                                    // the network devices, asked at every look at the host
	Load       func(context.Context) (wire.HostMeter, error)             // the host's own load
	Memory     func(context.Context) (available, total int64, err error) // of the host, in bytes; nil: guests keep what they have
	Links      Links                                                     // nil: the host is only simulated
	Version    string
	Ports      transfer.Ports // on which other hosts' disks and images are taken in
	Slots      int            // how many slow jobs at a time; 0: 4. Console openings and waiting take no slot
	Log        *slog.Logger
	Metrics    *Metrics
}

// timing is every period and deadline of an agent.
type timing struct {
	report, snapshot, spacing, lease time.Duration
	inventory, inventoryRead         time.Duration
	nics                             time.Duration // longest wait of a look for the network devices
	passive                          time.Duration // between two attempts to become this host's agent
	retry, retryMost                 time.Duration // backoff of the loops
	grace                            time.Duration // for jobs in work when the agent stops
	stall                            time.Duration // longest silence of a step that makes progress
	start                            time.Duration // for starting alone, after the definition is as it should be
	askAgain, shutdown, poll         time.Duration // waiting for a guest to power off
	call                             time.Duration // one short call of the hypervisor
	thaw                             time.Duration // one try to thaw a guest
	keep                             time.Duration // between two looks for what the host does with VMs by itself
	again, againMost                 time.Duration // before a guest that went off is started again: the first time, and at most
	balloon                          time.Duration // between two looks at the host's memory
	second                           time.Duration // of a health check
	calm                             time.Duration // that a guest has run for, not to count as one that goes off again and again
}

var usual = timing{
	report: wire.ReportPeriod, snapshot: 5 * time.Second, spacing: 200 * time.Millisecond, lease: 8 * time.Second,
	inventory: 10 * time.Minute, inventoryRead: 20 * time.Second, nics: 500 * time.Millisecond,
	passive: 30 * time.Second,
	retry:   500 * time.Millisecond, retryMost: 5 * time.Second,
	grace:    4 * time.Second,
	stall:    2 * time.Minute,
	start:    2 * time.Minute,
	askAgain: 15 * time.Second, shutdown: 3 * time.Minute, poll: 500 * time.Millisecond,
	call: 10 * time.Second,
	thaw: 40 * time.Second,
	keep: 2 * time.Second, again: 10 * time.Second, againMost: 5 * time.Minute, calm: 10 * time.Minute, second: time.Second,
	balloon: 10 * time.Second,
}

// Agent is the host side of Quantix: it reports what is, claims what shall be, and does it.
type Agent struct {
	identity   *Identity
	client     *wire.Client
	hypervisor Hypervisor
	links      Links
	nics       nicWatch
	hostMemory func(context.Context) (available, total int64, err error)
	version    string
	instance   string
	times      timing
	log        *slog.Logger
	metrics    *Metrics

	memory    *stateFile
	journal   *journal
	running   *runningJobs
	inventory *inventory
	reports   *reporter
	slots     *semaphore.Weighted
	consoles  atomic.Int64
	uploads   counter
	freezes   freezes
	autostart autostarter
	judge     judge
	ports     transfer.Ports

	seq     atomic.Int64 // see next
	moved   bell         // the hypervisor said that something may have changed
	renewed bell         // there is a new certificate

	life    context.Context // Run's: consoles and waits end with it
	pending []journalEntry  // what the last run left open; told after the first hello
	work    sync.WaitGroup
}

// New makes an agent and opens its files in the identity's directory.
func New(o Options) (*Agent, error) {
	return newAgent(o, usual)
}

func newAgent(o Options, times timing) (*Agent, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(o.Version)
	}
	if o.Links == nil {
		o.Links = noLinks{}
	}
	if o.Slots == 0 {
		o.Slots = 4
	}
	a := &Agent{
		identity: o.Identity, client: o.Client, hypervisor: o.Hypervisor, links: o.Links, nics: nicWatch{read: o.NICs}, version: o.Version, instance: rand.Text(),
		times: times, log: o.Log, metrics: o.Metrics, running: newRunningJobs(), slots: semaphore.NewWeighted(int64(o.Slots)), ports: o.Ports, hostMemory: o.Memory,
	}
	var err error
	if a.memory, err = openMemory(filepath.Join(o.Identity.dir, memoryFile)); err != nil {
		return nil, err
	}
	if a.journal, err = openJournal(filepath.Join(o.Identity.dir, journalFile)); err != nil {
		return nil, err
	}
	a.pending = a.journal.open()
	a.inventory = newInventory(o.Inventory)
	a.reports = newReporter(a, o.Load)
	return a, nil
}

// Run works until ctx ends, whatever fails meanwhile. It then gives the jobs in work a few seconds, and never stops a
// VM. Jobs that it leaves come back through their leases.
func (a *Agent) Run(ctx context.Context) error {
	defer a.journal.close()
	a.life = ctx
	inWork, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	var duties sync.WaitGroup
	duties.Go(func() { a.restoreLinks(ctx) })
	duties.Go(func() { a.watch(ctx) })
	duties.Go(func() { a.inventoryLoop(ctx) })
	duties.Go(func() { a.renewLoop(ctx) })
	duties.Go(func() { a.keepVMs(ctx) })
	duties.Go(func() { a.judgeVMs(ctx) })
	duties.Go(func() { a.shareMemory(ctx) })
	a.thawLeft()
	for ctx.Err() == nil {
		if a.hello(ctx) {
			a.running.newSession()
			a.reportPending(inWork)
			a.serve(ctx, inWork)
		}
	}
	duties.Wait()
	a.freezes.end.Wait()
	a.migrate(stopWork)
	return nil
}

// migrate gives the jobs in work their grace.
func (a *Agent) migrate(stopWork context.CancelCauseFunc) {
	ended := make(chan struct{})
	go func() {
		a.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-time.After(a.times.grace):
	}
	stopWork(errStopping)
	select {
	case <-ended:
	case <-time.After(a.times.grace / 2):
		a.log.Warn("The agent leaves while a call of the hypervisor hangs.")
	}
}

// watch hands the hypervisor's wake-ups to all who wait for one.
func (a *Agent) watch(ctx context.Context) {
	changes := a.hypervisor.Changes(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changes:
			if !ok {
				return
			}
			a.moved.ring()
			a.reports.poke()
		}
	}
}

// next is the next number of the one sequence that orders reports and finishes.
//
// A report takes its number before it reads the host, a finish after it has read its status. So a report that was
// being read while a job ended has a lower number than the job's finish and cannot undo it, though it arrives later.
func (a *Agent) next() int64 { return a.seq.Add(1) }

// present reports whether the number is one of this session: the portal takes no others. Its upper half numbers sessions.
func (a *Agent) present(seq int64) bool { return seq>>32 == a.seq.Load()>>32 }

// RefreshInventory reads the hardware again soon.
func (a *Agent) RefreshInventory() { a.inventory.refresh() }

// sessionOver reports whether the portal no longer takes this agent for the host's: say hello again.
func sessionOver(err error) bool {
	s := wire.StatusOf(err)
	return s == 409 || s == 401
}

// detail is the portal's sentence, or the error's text.
func detail(err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Detail
	}
	return fmt.Sprint(err)
}

// bell wakes everybody who waits.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
