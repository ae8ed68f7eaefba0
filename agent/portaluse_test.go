package agent_test

import (
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// lockForChange acquires the portal's lock. The returned function releases the lock and wakes all waiters.
func (p *portal) lockForChange() func() {
	p.mu.Lock()
	return func() {
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *portal) update(f func()) {
	defer p.lockForChange()()
	f()
}

// waitUntil blocks until ok returns true; ok runs under the lock.
func (p *portal) waitUntil(what string, ok func() bool) {
	p.t.Helper()
	limit := time.After(waitTimeout)
	for {
		p.mu.Lock()
		done, moved := ok(), p.changed
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-limit:
			p.t.Fatalf("%s: did not happen in time", what)
		}
	}
}

// queueJob queues a job and returns its id.
func (p *portal) queueJob(w wire.Work) fleet.JobID {
	if w.ID == "" {
		w.ID = fleet.NewID[fleet.JobID]()
	}
	if w.Epoch == 0 {
		w.Epoch = 1
	}
	if w.VM != nil {
		w.Subject, w.Generation = fleet.SubjectVM(w.VM.ID), w.VM.Generation
	}
	if w.Pool != nil && w.Subject == "" {
		w.Subject, w.Generation = fleet.SubjectPool(w.Pool.ID), w.Pool.Generation
	}
	if w.Network != nil && w.Subject == "" {
		w.Subject, w.Generation = fleet.SubjectOf(fleet.TypeNetwork, w.Network.ID), w.Network.Generation
	}
	p.update(func() { p.queue = append(p.queue, w) })
	return w.ID
}

// waitResult waits until the agent has reported the first result of the job.
func (p *portal) waitResult(id fleet.JobID) (out finish) {
	p.t.Helper()
	p.waitUntil("finish of job "+string(id), func() bool {
		for _, f := range p.finishes {
			if f.ID == id {
				out = f
				return true
			}
		}
		return false
	})
	return out
}

// runJob queues a job and waits for its result.
func (p *portal) runJob(w wire.Work) finish {
	p.t.Helper()
	return p.waitResult(p.queueJob(w))
}

// waitNextState waits for a new full report that satisfies ok.
func (p *portal) waitNextState(what string, ok func(wire.State) bool) (out wire.State) {
	p.t.Helper()
	p.mu.Lock()
	from := len(p.reports)
	p.mu.Unlock()
	return p.waitStateSince(from, what, ok)
}

func (p *portal) waitStateSince(from int, what string, ok func(wire.State) bool) (out wire.State) {
	p.t.Helper()
	p.waitUntil(what, func() bool {
		for _, r := range p.reports[from:] {
			if r.State != nil && ok(*r.State) {
				out = *r.State
				return true
			}
		}
		return false
	})
	return out
}

// waitIdle waits until the agent has no running job.
func (p *portal) waitIdle() {
	p.t.Helper()
	p.mu.Lock()
	from := len(p.reports)
	p.mu.Unlock()
	p.waitUntil("an agent without work", func() bool {
		return len(p.reports) > from && len(p.reports[len(p.reports)-1].Leases) == 0
	})
}
