package wire

import (
	"sync"
	"time"
)

// stampMaxAge is how long a better stamp is preferred to a newer one: clocks drift, and the portal's clock may be
// set.
const stampMaxAge = time.Minute

// portalClock estimates the portal's present time. The portal's time is at least the last stamp plus the time since
// its arrival, because an answer may be delayed. The best stamp gives the latest time.
type portalClock struct {
	mu      sync.Mutex
	at      time.Time // the portal's time in the answer
	arrived time.Time // arrival of the answer on the monotonic clock
}

// update takes the portal's time of an answer that has just arrived; zero means that the answer had none.
func (c *portalClock) update(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.arrived)
	if !at.IsZero() && (c.at.IsZero() || since > stampMaxAge || at.Sub(c.at) >= since) {
		c.at, c.arrived = at, time.Now()
	}
}

// stamp returns the stamp for a report sent now; nil before the portal has sent any time.
func (c *portalClock) stamp() *Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return nil
	}
	return &Stamp{At: c.at, AgoMs: time.Since(c.arrived).Milliseconds()}
}
