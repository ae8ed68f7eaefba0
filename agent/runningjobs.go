package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Why a job's context ends before its work does.
var (
	errLost     = errors.New("the portal has taken the job back")
	errStopping = errors.New("the agent is stopping")
)

// job is one claimed job in work on this host.
type job struct {
	wire.Work
	ctx    context.Context // ends with the agent, or when the job is lost
	cancel context.CancelCauseFunc
	epoch  atomic.Int64  // of the newest claim: the portal may give the same job again while it is in work
	lost   atomic.Bool   // the result is of no use any more
	anew   *wire.Work    // as it was claimed last while it was in work; nil: once is all
	before *job          // the job of the same subject that must end first
	done   chan struct{} // closed when the act is over and remembered
	told   notifier
	asked  asked              // to end before its time
	begun  bool               // something may have been done; it is of who acts
	drawn  *fleet.Drawing     // of a plan; likewise
	output *fleet.GuestOutput // of a program in the guest; likewise
}

// runningJobs holds the jobs in work: one a subject acts at a time, later ones wait for it.
type runningJobs struct {
	mu     sync.Mutex
	jobs   map[fleet.JobID]*job
	last   map[fleet.Subject]*job
	epochs map[fleet.Subject]int64 // newest epoch seen
	room   chan struct{}           // has room for one: a job has left
}

func newRunningJobs() *runningJobs {
	return &runningJobs{
		jobs: map[fleet.JobID]*job{}, last: map[fleet.Subject]*job{}, epochs: map[fleet.Subject]int64{},
		room: make(chan struct{}, 1),
	}
}

// take accepts claimed work, to be done within ctx. nil: it is in work already (and now under the newer epoch), or its
// epoch is outdated: newest is then the higher one that was seen for the subject, and else 0. What waits for its guest
// ends when another job of the VM comes: the portal has broken it off, because somebody wants the VM off now.
func (b *runningJobs) take(ctx context.Context, w wire.Work) (j *job, newest int64) {
	aside := w.Kind.Is().Aside
	if aside {
		w.Subject = fleet.Subject("aside:" + string(w.ID)) // it waits for nothing and nothing waits for it
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest = b.epochs[w.Subject]; w.Epoch < newest {
		return nil, newest
	}
	if !aside {
		b.epochs[w.Subject] = w.Epoch
	}
	if known, ok := b.jobs[w.ID]; ok && !known.lost.Load() {
		if w.Epoch > known.epoch.Load() {
			known.epoch.Store(w.Epoch)
			known.anew = &w
		}
		known.stop(w.Stop)
		return nil, 0
	}
	j = &job{Work: w, before: b.last[w.Subject], done: make(chan struct{})}
	if j.before != nil && j.before.ID != w.ID && j.before.Kind.Is().Waits {
		j.before.lose()
		j.before.cancel(errLost) // also one that is never done twice: what it waits for is the guest's, and goes on there
	}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	j.epoch.Store(w.Epoch)
	j.stop(w.Stop)
	b.jobs[w.ID], b.last[w.Subject] = j, j
	return j, 0
}

// drop takes an ended job off the board. taken is the epoch under which the portal took its result; 0: it did not. What it returns is to be done anew: the portal
// gave the job again after that, and it came before this agent had heard that its result was taken.
func (b *runningJobs) drop(j *job, taken int64) (anew *wire.Work) {
	j.cancel(nil)
	b.mu.Lock()
	if taken > 0 && j.epoch.Load() > taken {
		anew = j.anew
	}
	if b.jobs[j.ID] == j {
		delete(b.jobs, j.ID)
	}
	if b.last[j.Subject] == j {
		delete(b.last, j.Subject)
	}
	b.mu.Unlock()
	select {
	case b.room <- struct{}{}:
	default:
	}
	return anew
}

// lose marks jobs whose lease is over. Convergent work ends at once, for it will be given again; single-shot work that
// has begun goes on to its end, for stopping half-way helps nobody.
func (b *runningJobs) lose(ids []fleet.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if j, ok := b.jobs[id]; ok {
			j.lose()
		}
	}
}

func (j *job) lose() {
	j.lost.Store(true)
	if !j.Kind.SingleShot(j.Args) {
		j.cancel(errLost)
	}
}

// leases lists what the portal must leave with this agent.
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

// busy names the subjects in work.
func (b *runningJobs) busy() map[fleet.Subject]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[fleet.Subject]bool, len(b.last))
	for s := range b.last {
		out[s] = true
	}
	return out
}

func (b *runningJobs) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.jobs)
}

// newSession forgets the epochs: no claim of the old session can arrive any more, and a portal restored from a backup
// counts from where the backup was.
func (b *runningJobs) newSession() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.epochs)
}
