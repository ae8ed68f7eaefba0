package agent

import (
	"errors"
	"sync"

	"quantix/internal/fleet"
)

// jobCancelledError is the error of a job that users cancelled; reason is a sentence that names the users.
type jobCancelledError struct{ reason string }

func (c jobCancelledError) Error() string { return c.reason }

// stopSignal is a request to stop, with its cause. Only the first call of stop has an effect.
type stopSignal struct {
	done  chan struct{}
	once  sync.Once
	cause error
}

func newStopSignal() *stopSignal { return &stopSignal{done: make(chan struct{})} }

func (s *stopSignal) stop(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.done)
	})
}

// firstCause returns the cause given to the first call of stop. It blocks until that call.
func (s *stopSignal) firstCause() error {
	<-s.done
	return s.cause
}

// stopRequest is the portal's request to stop a job early.
type stopRequest struct {
	mu     sync.Mutex
	reason string
	notify func(error)
}

// stop stops the job because users cancelled it. It does nothing if reason is empty.
func (j *job) stop(reason string) {
	if reason == "" {
		return
	}
	j.stopReq.mu.Lock()
	defer j.stopReq.mu.Unlock()
	j.stopReq.reason = reason
	if j.stopReq.notify != nil {
		j.stopReq.notify(jobCancelledError{reason})
	}
}

// whenStopped calls notify when users cancel the job, or at once if they have already cancelled it. After forget, it
// does not call notify any more.
func (j *job) whenStopped(notify func(error)) (forget func()) {
	j.stopReq.mu.Lock()
	j.stopReq.notify = notify
	reason := j.stopReq.reason
	j.stopReq.mu.Unlock()
	if reason != "" {
		notify(jobCancelledError{reason})
	}
	return func() {
		j.stopReq.mu.Lock()
		defer j.stopReq.mu.Unlock()
		j.stopReq.notify = nil
	}
}

// cancellationReason returns the sentence that names the users who cancelled the job; ok: the job was cancelled.
func cancellationReason(err error) (reason string, ok bool) {
	var c jobCancelledError
	ok = errors.As(err, &c)
	return c.reason, ok
}

// stop stops the jobs that users cancelled. reasons maps each of these jobs to a sentence that names the users.
func (b *runningJobs) stop(reasons map[fleet.JobID]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, reason := range reasons {
		if j, ok := b.jobs[id]; ok {
			j.stop(reason)
		}
	}
}
