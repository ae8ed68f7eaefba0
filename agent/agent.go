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

	"quantix/agent/diagnose"
	"quantix/agent/healthcheck"
	"quantix/agent/hypervisor"
	"quantix/agent/logtail"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/wire"
)

// Options are the dependencies of an agent. All but Memory, Links, Slots, Log, Metrics and
// those of commands to the host are required.
type Options struct {
	Identity   *Identity
	Client     *wire.Client // the result of Identity.Client
	Hypervisor hypervisor.Hypervisor
	// Inventory reads the hardware: at the start, every ten minutes and on RefreshInventory.
	Inventory func(context.Context) (fleet.Inventory, error)
	NICs      func() []fleet.HostNIC                        // reads the network devices for every report
	Load      func(context.Context) (fleet.HostLoad, error) // reads the host's load
	// Memory returns the host's memory in bytes. Nil disables ballooning.
	Memory  func(context.Context) (available, total int64, err error)
	Links   Links // nil: the host is simulated
	Version string
	// Settings are those of agent.yaml that the portal shows. They win over the portal's.
	Settings fleet.AgentSettings
	// HostPower reboots the machine, or powers it off, for a job of kind host.reboot or host.shutdown. Nil: agent.yaml
	// does not allow it.
	HostPower func(context.Context, fleet.JobKind) error
	// Restart ends the agent's Run and starts the agent again. It returns at once. Nil: this agent cannot be restarted.
	Restart func()
	// Diagnostics are what the agent collects for a job of kind host.diagnose besides what it knows itself. Site are the
	// site's own diagnostics. ShowSettings returns the agent's settings as text.
	Diagnostics  []diagnose.Item
	Site         diagnose.Site
	ShowSettings func() string
	LogTail      *logtail.Tail // the last lines of Log; nil: the agent keeps them itself

	Ports   transfer.PortRange  // the host's ports for disks and images of other hosts
	Checks  []healthcheck.Check // the health checks of the host
	Slots   int                 // number of concurrent slow jobs; 0: 4. Console jobs and waiting jobs take no slot
	Log     *slog.Logger
	Metrics *Metrics
}

// timing holds all periods and deadlines of an agent.
type timing struct {
	// reportInterval and leaseInterval are the intervals of reports and lease renewals. hostReadLimit limits one read
	// of the host's state. reportSpacing is the pause after a report.
	reportInterval, hostReadLimit, reportSpacing, leaseInterval time.Duration
	// inventoryInterval is the interval of hardware reads. inventoryReadLimit limits one hardware read.
	inventoryInterval, inventoryReadLimit time.Duration
	nicReadLimit                          time.Duration // longest wait of a report for the network devices
	passiveRetry                          time.Duration // interval of attempts to become this host's active agent
	retry, retryMax                       time.Duration // backoff of the loops
	stopGrace                             time.Duration // time for running jobs to finish when the agent stops
	// longest time without progress of a step that reports progress
	stallLimit                                  time.Duration
	startLimit                                  time.Duration // limit of the hypervisor's start call, once the definition is up to date
	shutdownRepeat, shutdownLimit, pollInterval time.Duration // of a guest's shutdown: interval of requests, time limit, interval of state reads
	hypervisorCallLimit                         time.Duration // limit of one short call to the hypervisor
	thawLimit                                   time.Duration // limit of one attempt to thaw a guest
	policyInterval                              time.Duration // interval of checks for VMs to start or restart by policy
	// initial and maximum delay before a stopped guest is restarted
	restartDelayMin, restartDelayMax time.Duration
	balloonInterval                  time.Duration // interval of checks of the host's memory
	checkRefresh                     time.Duration // longest time between two reports of all health checks
	healthCheckSecond                time.Duration // one second of a health check; shorter in tests
	// run time after which a restarted guest no longer counts as one that stops repeatedly
	restartResetPeriod time.Duration
}

var defaultTiming = timing{
	reportInterval: wire.ReportPeriod, hostReadLimit: 5 * time.Second, reportSpacing: 200 * time.Millisecond, leaseInterval: 8 * time.Second,
	inventoryInterval: 10 * time.Minute, inventoryReadLimit: 20 * time.Second, nicReadLimit: 500 * time.Millisecond,
	passiveRetry: 30 * time.Second,
	retry:        500 * time.Millisecond, retryMax: 5 * time.Second,
	stopGrace:      4 * time.Second,
	stallLimit:     2 * time.Minute,
	startLimit:     2 * time.Minute,
	shutdownRepeat: 15 * time.Second, shutdownLimit: 3 * time.Minute, pollInterval: 500 * time.Millisecond,
	hypervisorCallLimit: 10 * time.Second,
	thawLimit:           40 * time.Second,
	policyInterval:      2 * time.Second, restartDelayMin: 10 * time.Second, restartDelayMax: 5 * time.Minute, restartResetPeriod: 10 * time.Minute, healthCheckSecond: time.Second,
	balloonInterval: 10 * time.Second,
	checkRefresh:    10 * time.Minute,
}

// Agent is the host side of Quantix: it reports the host's state, claims jobs and runs them.
type Agent struct {
	identity   *Identity
	client     *wire.Client
	hypervisor hypervisor.Hypervisor
	links      Links
	nics       nicReader
	hostMemory func(context.Context) (available, total int64, err error)
	version    string
	settings   fleet.AgentSettings
	hostPower  func(context.Context, fleet.JobKind) error // nil: not allowed
	restart    func()                                     // nil: not possible
	diagnosis  diagnosis
	secrets    secretBook // secrets that the portal sent: they are removed from logs and diagnostics for people
	instance   string
	timing     timing
	log        *slog.Logger
	metrics    *Metrics

	state        *stateFile
	journal      *journal
	running      *runningJobs
	inventory    *inventory
	reports      *reporter
	slots        *semaphore.Weighted
	consoleCount atomic.Int64
	uploads      uploadWaiters
	freezes      frozenGuests
	autostart    autostarter
	health       healthChecker
	checks       *hostChecks
	ports        transfer.PortRange

	seq                atomic.Int64  // newest sequence number: see nextSeq
	hostChanged        changeSignal  // signalled when something on the host may have changed
	certificateRenewed changeSignal  // signalled when there is a new certificate
	certificateRefused chan struct{} // receives a value when the portal has refused the certificate

	runContext     context.Context // the context of Run: consoles and waiting jobs end with it
	unreportedJobs []journalEntry  // unfinished jobs of the last run; reported after the first hello
	jobGoroutines  sync.WaitGroup
}

// New creates an agent and opens its files in the identity's directory.
func New(o Options) (*Agent, error) {
	return newAgent(o, defaultTiming)
}

func newAgent(o Options, times timing) (*Agent, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LogTail == nil {
		o.LogTail = logtail.New(hostcommand.MaxLogLines, hostcommand.MaxLogBytes)
		o.Log = slog.New(o.LogTail.Handler(o.Log.Handler()))
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
		identity: o.Identity, client: o.Client, hypervisor: o.Hypervisor, links: o.Links, nics: nicReader{read: o.NICs}, version: o.Version, settings: o.Settings, instance: rand.Text(),
		timing: times, log: o.Log, metrics: o.Metrics, running: newRunningJobs(), slots: semaphore.NewWeighted(int64(o.Slots)), ports: o.Ports, hostMemory: o.Memory,
		certificateRefused: make(chan struct{}, 1),
	}
	a.hostPower, a.settings.HostPower = o.HostPower, o.HostPower != nil
	a.restart, a.settings.Commands = o.Restart, []fleet.JobKind{fleet.HostDiagnose, fleet.HostAgentLog}
	if o.Restart != nil {
		a.settings.Commands = append(a.settings.Commands, fleet.HostAgentRestart)
	}
	a.diagnosis.items, a.diagnosis.site, a.diagnosis.showSettings = o.Diagnostics, o.Site, o.ShowSettings
	a.diagnosis.log, a.diagnosis.began = o.LogTail, time.Now()
	var err error
	if a.state, err = openStateFile(filepath.Join(o.Identity.dir, stateFileName)); err != nil {
		return nil, err
	}
	if a.journal, err = openJournal(filepath.Join(o.Identity.dir, journalFile)); err != nil {
		return nil, err
	}
	a.unreportedJobs = a.journal.undeliveredEntries()
	a.inventory = newInventory(o.Inventory)
	a.reports = newReporter(a, o.Load)
	a.checks = newHostChecks(o.Checks)
	return a, nil
}

// Run runs the agent until ctx ends; failures are logged and retried. When ctx ends, running jobs get a few seconds to
// finish, and VMs keep running. The portal sends unfinished jobs to the next agent when their leases expire.
func (a *Agent) Run(ctx context.Context) error {
	defer a.journal.close()
	a.runContext = ctx
	jobsCtx, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	var loops sync.WaitGroup
	loops.Go(func() { a.restoreLinks(ctx) })
	loops.Go(func() { a.watchHypervisorChanges(ctx) })
	loops.Go(func() { a.inventoryLoop(ctx) })
	loops.Go(func() { a.certificateRenewalLoop(ctx) })
	loops.Go(func() { a.autostartLoop(ctx) })
	loops.Go(func() { a.healthLoop(ctx) })
	loops.Go(func() { a.balloonLoop(ctx) })
	if a.diagnosis.site.Dir != "" {
		go a.readSiteNames(ctx)
	}
	loops.Go(func() { a.checks.run(ctx) })
	a.thawGuestsLeftFrozen()
	for ctx.Err() == nil {
		if a.sendHelloUntilAccepted(ctx) {
			a.running.resetEpochs()
			a.reportUnreportedJobs(jobsCtx)
			a.runSession(ctx, jobsCtx)
		}
	}
	loops.Wait()
	a.freezes.thawing.Wait()
	a.awaitJobs(stopWork)
	return nil
}

// awaitJobs waits for the running jobs up to the grace period, then cancels them.
func (a *Agent) awaitJobs(stopWork context.CancelCauseFunc) {
	ended := make(chan struct{})
	go func() {
		a.jobGoroutines.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-time.After(a.timing.stopGrace):
	}
	stopWork(errAgentStopping)
	select {
	case <-ended:
	case <-time.After(a.timing.stopGrace / 2):
		a.log.Warn("The agent exits although a hypervisor call has not returned.")
	}
}

// watchHypervisorChanges passes the hypervisor's wake-ups on to all waiters.
func (a *Agent) watchHypervisorChanges(ctx context.Context) {
	changes := a.hypervisor.WatchChanges(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changes:
			if !ok {
				return
			}
			a.hostChanged.broadcast()
			a.reports.trigger()
		}
	}
}

// nextSeq returns the next number of the sequence that orders reports and job results (wire.Finish).
//
// A report takes its number before the agent reads the host. A result takes its number after the agent has read the
// job's resulting status. So a report that was read while a job ended has a lower number than the job's result, and
// cannot override the result even if the report arrives later.
func (a *Agent) nextSeq() int64 { return a.seq.Add(1) }

// isCurrentSeq reports whether seq belongs to this session; the portal refuses numbers of other sessions. The upper 32
// bits of a number identify the session.
func (a *Agent) isCurrentSeq(seq int64) bool { return seq>>32 == a.seq.Load()>>32 }

// RefreshInventory triggers a new read of the hardware.
func (a *Agent) RefreshInventory() { a.inventory.refresh() }

// isSessionEnded reports whether err means that the portal no longer accepts this agent's session: the agent must send
// a new hello.
func isSessionEnded(err error) bool {
	s := wire.StatusOf(err)
	return s == 409 || s == 401
}

// errorDetail returns the portal's error sentence, or else the error's text.
func errorDetail(err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Detail
	}
	return fmt.Sprint(err)
}

// changeSignal is a broadcast without data: broadcast wakes all goroutines that wait on the channel of wait.
type changeSignal struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *changeSignal) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *changeSignal) broadcast() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
