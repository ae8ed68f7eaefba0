package agent

import (
	"errors"
	"sync"

	"quantix/internal/fleet"
)

// cancelled is the error of work that users stopped; words is a sentence with their names.
type cancelled struct{ words string }

func (c cancelled) Error() string { return c.words }

// stopper asks work to stop, once, and keeps the cause.
type stopper struct {
	done  chan struct{}
	once  sync.Once
	cause error
}

func newStopper() *stopper { return &stopper{done: make(chan struct{})} }

func (s *stopper) stop(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.done)
	})
}

// why returns the first cause; it must be called only after stop.
func (s *stopper) why() error {
	<-s.done
	return s.cause
}

// stopRequest is the portal's request to stop a job early.
type stopRequest struct {
	mu     sync.Mutex
	words  string
	notify func(error)
}

// stop asks the job to stop because users cancelled it; empty words do nothing.
func (j *job) stop(words string) {
	if words == "" {
		return
	}
	j.stopReq.mu.Lock()
	defer j.stopReq.mu.Unlock()
	j.stopReq.words = words
	if j.stopReq.notify != nil {
		j.stopReq.notify(cancelled{words})
	}
}

// whenStopped calls notify when users cancel the job, also if they did so before.
func (j *job) whenStopped(notify func(error)) (forget func()) {
	j.stopReq.mu.Lock()
	j.stopReq.notify = notify
	words := j.stopReq.words
	j.stopReq.mu.Unlock()
	if words != "" {
		notify(cancelled{words})
	}
	return func() {
		j.stopReq.mu.Lock()
		defer j.stopReq.mu.Unlock()
		j.stopReq.notify = nil
	}
}

// wasCancelled returns the sentence of the users who cancelled the work; ok: it was cancelled.
func wasCancelled(err error) (words string, ok bool) {
	var c cancelled
	ok = errors.As(err, &c)
	return c.words, ok
}

// stop asks running jobs to stop that users cancelled.
func (b *runningJobs) stop(words map[fleet.JobID]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, why := range words {
		if j, ok := b.jobs[id]; ok {
			j.stop(why)
		}
	}
}
