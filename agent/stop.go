package agent

import (
	"errors"
	"sync"

	"quantix/internal/fleet"
)

// cancelled is why work ended that people took back while it was done: their names, in a sentence.
type cancelled struct{ words string }

func (c cancelled) Error() string { return c.words }

// stopper tells work to end, once, and keeps why.
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

// why is the first cause; it is asked once the work has ended because of it.
func (s *stopper) why() error {
	<-s.done
	return s.cause
}

// asked is what a job was told about its end by the portal.
type asked struct {
	mu    sync.Mutex
	words string
	tell  func(error)
}

// stop tells the job's work that people took it back. Empty words: they did not.
func (j *job) stop(words string) {
	if words == "" {
		return
	}
	j.asked.mu.Lock()
	defer j.asked.mu.Unlock()
	j.asked.words = words
	if j.asked.tell != nil {
		j.asked.tell(cancelled{words})
	}
}

// whenStopped has tell hear that people took the job back, also where they did so before.
func (j *job) whenStopped(tell func(error)) (forget func()) {
	j.asked.mu.Lock()
	j.asked.tell = tell
	words := j.asked.words
	j.asked.mu.Unlock()
	if words != "" {
		tell(cancelled{words})
	}
	return func() {
		j.asked.mu.Lock()
		defer j.asked.mu.Unlock()
		j.asked.tell = nil
	}
}

// wasCancelled is the words of people who took the work back; ok: it ended so.
func wasCancelled(err error) (words string, ok bool) {
	var c cancelled
	ok = errors.As(err, &c)
	return c.words, ok
}

// stop tells jobs in work that people took them back.
func (b *runningJobs) stop(words map[fleet.JobID]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, why := range words {
		if j, ok := b.jobs[id]; ok {
			j.stop(why)
		}
	}
}
