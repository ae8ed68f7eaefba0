package wire

import (
	"sync"
	"time"
)

// stampKept is how long a better stamp is kept before a newer one: clocks drift, and the portal's may be set.
const stampKept = time.Minute

// stamps keeps the moment of the portal's clock from which the present one can be told best. An answer may have been under way
// for long, so the portal's time is at least the stamp and what has passed since it was heard: the best stamp says the most.
type stamps struct {
	mu sync.Mutex
	at time.Time // of the portal
	on time.Time // when it was heard, on the monotonic clock
}

// heard takes up a moment that the portal has just told; zero: it told none.
func (s *stamps) heard(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Since(s.on)
	if !at.IsZero() && (s.at.IsZero() || since > stampKept || at.Sub(s.at) >= since) {
		s.at, s.on = at, time.Now()
	}
}

// now is the stamp for a report that is sent now; nil: the portal has told no time yet.
func (s *stamps) now() *Stamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		return nil
	}
	return &Stamp{At: s.at, AgoMs: time.Since(s.on).Milliseconds()}
}
