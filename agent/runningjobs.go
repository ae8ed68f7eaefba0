package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Causes of a job's context that ends early.
var (
	errJobLost       = errors.New("the portal has taken the job back")
	errAgentStopping = errors.New("the agent is stopping")
)

// job is a claimed job on this host, waiting or running.
type job struct {
	wire.Work
	ctx          context.Context // ends with the agent, or when the job is lost
	cancel       context.CancelCauseFunc
	epoch        atomic.Int64  // epoch of the newest claim: the portal may give out a running job again
	lost         atomic.Bool   // the portal no longer accepts the result
	reclaimed    *wire.Work    // the newest claim while the job was running; nil: there was none
	previous     *job          // the job of the same subject that must end first
	done         chan struct{} // closed once the job has ended and is recorded
	notifier     progressNotifier
	order        fleet.Subject         // jobs with the same value run one after the other: the subject, or a value of the job's own
	stopReq      stopRequest           // a request to stop early
	mayHaveActed bool                  // the handler may have changed something; used by the handler's goroutine
	plan         *fleet.DefinitionDiff // result of a plan; used by the handler's goroutine
	output       *fleet.GuestOutput    // result of a program in the guest; used by the handler's goroutine
	afterwards   func()                // runs once the portal has accepted that the job is done; used by the handler's goroutine
	handOver     func()                // runs instead of the delivery of a successful result, which the next agent delivers from the journal
	adoptable    *fleet.AdoptableVM    // result of the reading of an unmanaged domain; used by the handler's goroutine
}

// runningJobs holds the running jobs. Only one job of an object (the job's subject, such as a VM) acts at a time; later
// jobs of the object wait.
type runningJobs struct {
	mu            sync.Mutex
	jobs          map[fleet.JobID]*job
	lastBySubject map[fleet.Subject]*job
	epochs        map[fleet.Subject]int64 // newest epoch seen
	jobEnded      chan struct{}           // signals that a job has ended; buffer of one
	anyEnded      changeSignal            // broadcasts each end of a job
}

func newRunningJobs() *runningJobs {
	return &runningJobs{
		jobs: map[fleet.JobID]*job{}, lastBySubject: map[fleet.Subject]*job{}, epochs: map[fleet.Subject]int64{},
		jobEnded: make(chan struct{}, 1),
	}
}

// acceptJob accepts a claimed job, to run within ctx. It returns nil if the job is running already (now under the newer
// epoch), or if its epoch is outdated: newest is then the highest epoch seen for the subject, else 0. A job that waits
// for its guest is cancelled when another job of the VM arrives: the portal has ended the wait, because a user wants
// the VM off now.
func (b *runningJobs) acceptJob(ctx context.Context, w wire.Work) (j *job, newest int64) {
	aside, order := w.Kind.Info().Background, w.Subject
	if aside {
		order = fleet.Subject("aside:" + string(w.ID)) // the job waits for no other job, and no job waits for it
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest = b.epochs[order]; w.Epoch < newest {
		return nil, newest
	}
	if !aside {
		b.epochs[order] = w.Epoch
	}
	if known, ok := b.jobs[w.ID]; ok && !known.lost.Load() {
		if w.Epoch > known.epoch.Load() {
			known.epoch.Store(w.Epoch)
			known.reclaimed = &w
		}
		known.stop(w.Stop)
		return nil, 0
	}
	j = &job{Work: w, order: order, previous: b.lastBySubject[order], done: make(chan struct{})}
	if j.previous != nil && j.previous.ID != w.ID && j.previous.Kind.Info().WaitsForGuest {
		j.previous.markLost()
		// A single-shot job may be cancelled, too: only the agent's wait ends, while the guest's shutdown continues.
		j.previous.cancel(errJobLost)
	}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	j.epoch.Store(w.Epoch)
	j.stop(w.Stop)
	b.jobs[w.ID], b.lastBySubject[order] = j, j
	return j, 0
}

// removeJob removes an ended job. acceptedEpoch is the epoch under which the portal accepted the job's result; 0: the
// portal did not accept it. again is the job if it must run again, because the portal sent it again before the agent
// received the acknowledgement of the result.
func (b *runningJobs) removeJob(j *job, acceptedEpoch int64) (again *wire.Work) {
	j.cancel(nil)
	b.mu.Lock()
	if acceptedEpoch > 0 && j.epoch.Load() > acceptedEpoch {
		again = j.reclaimed
	}
	if b.jobs[j.ID] == j {
		delete(b.jobs, j.ID)
	}
	if b.lastBySubject[j.order] == j {
		delete(b.lastBySubject, j.order)
	}
	b.mu.Unlock()
	b.anyEnded.broadcast()
	select {
	case b.jobEnded <- struct{}{}:
	default:
	}
	return again
}

// markLost marks jobs whose lease has expired. Jobs that may run twice end at once, because the portal sends them
// again. Single-shot jobs that have begun run to their end, because a half-done action is worse.
func (b *runningJobs) markLost(ids []fleet.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if j, ok := b.jobs[id]; ok {
			j.markLost()
		}
	}
}

func (j *job) markLost() {
	j.lost.Store(true)
	if !j.Kind.IsSingleShot(j.Args) {
		j.cancel(errJobLost)
	}
}

// leases lists the leases that the portal must renew.
func (b *runningJobs) leases() []wire.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Lease
	for id, j := range b.jobs {
		if !j.lost.Load() {
			out = append(out, wire.Lease{ID: id, Epoch: j.epoch.Load()})
		}
	}
	return out
}

// subjects names the subjects with running jobs.
func (b *runningJobs) subjects() map[fleet.Subject]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[fleet.Subject]bool, len(b.lastBySubject))
	for s := range b.lastBySubject {
		out[s] = true
	}
	return out
}

// interrupted lists the running jobs that a restart of the agent would interrupt, with their subjects.
func (b *runningJobs) interrupted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, j := range b.jobs {
		if !j.Kind.Info().SurvivesAgentRestart() {
			out = append(out, string(j.Kind)+" "+string(j.Subject))
		}
	}
	slices.Sort(out)
	return out
}

func (b *runningJobs) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.jobs)
}

// resetEpochs clears the epochs: no claim of the old session can arrive any more, and a portal restored from a backup
// continues with that backup's epochs.
func (b *runningJobs) resetEpochs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.epochs)
}
