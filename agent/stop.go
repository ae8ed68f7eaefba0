package agent

import (
	"errors"
	"sync"

	"quantix/internal/fleet"
)

// jobCancelledError is the error of a job that users cancelled; words is a sentence that names the users.
type jobCancelledError struct{ words string }

func (c jobCancelledError) Error() string { return c.words }

// firstStop is a request to stop, with its cause. Only the first call of stop counts.
type firstStop struct {
	done  chan struct{}
	once  sync.Once
	cause error
}

func newStopper() *firstStop { return &firstStop{done: make(chan struct{})} }

func (s *firstStop) stop(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.done)
	})
}

// firstCause returns the first cause. It blocks until stop has been called.
func (s *firstStop) firstCause() error {
	<-s.done
	return s.cause
}

// stopRequest is the portal's request to stop a job early.
type stopRequest struct {
	mu     sync.Mutex
	reason string
	notify func(error)
}

// stop asks the job to stop because users cancelled it. It does nothing if words is empty.
func (j *job) stop(words string) {
	if words == "" {
		return
	}
	j.stopReq.mu.Lock()
	defer j.stopReq.mu.Unlock()
	j.stopReq.reason = words
	if j.stopReq.notify != nil {
		j.stopReq.notify(jobCancelledError{words})
	}
}

// whenStopped calls notify when users cancel the job, or at once if they already have.
func (j *job) whenStopped(notify func(error)) (forget func()) {
	j.stopReq.mu.Lock()
	j.stopReq.notify = notify
	words := j.stopReq.reason
	j.stopReq.mu.Unlock()
	if words != "" {
		notify(jobCancelledError{words})
	}
	return func() {
		j.stopReq.mu.Lock()
		defer j.stopReq.mu.Unlock()
		j.stopReq.notify = nil
	}
}

// cancellationReason returns the sentence of the users who cancelled the job; ok: the job was cancelled.
func cancellationReason(err error) (words string, ok bool) {
	var c jobCancelledError
	ok = errors.As(err, &c)
	return c.words, ok
}

// stop asks the jobs in words to stop, because users cancelled them. A job's value in words names the users.
func (b *runningJobs) stop(words map[fleet.JobID]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, why := range words {
		if j, ok := b.jobs[id]; ok {
			j.stop(why)
		}
	}
}
