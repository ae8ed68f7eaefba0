package wire

import (
	"sync"
	"time"
)

// stampMaxAge limits how long an earlier, better stamp is preferred to a newer one, because clocks drift and an
// administrator may set the portal's clock.
const stampMaxAge = time.Minute

// portalClock estimates the portal's current time: at least the last stamp plus the time since the stamp's arrival,
// because the answer may have been delayed. The best stamp is the one that yields the latest time.
type portalClock struct {
	mu      sync.Mutex
	at      time.Time // the portal's time in the answer
	arrived time.Time // arrival of the answer on the monotonic clock
}

// update records the portal's time from an answer that has just arrived. Zero means that the answer contained no time.
func (c *portalClock) update(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.arrived)
	if !at.IsZero() && (c.at.IsZero() || since > stampMaxAge || at.Sub(c.at) >= since) {
		c.at, c.arrived = at, time.Now()
	}
}

// now returns the portal's estimated time, or this machine's time until the portal has sent a time.
func (c *portalClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at.Add(time.Since(c.arrived))
}

// offset returns how far this machine's clock differs from the portal's, as an absolute value. ok is false until the portal
// has sent a time.
func (c *portalClock) offset() (off time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return 0, false
	}
	return time.Since(c.at.Add(time.Since(c.arrived))).Abs(), true
}

// stamp returns the stamp for a report sent now. It returns nil until the portal has sent a time.
func (c *portalClock) stamp() *Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return nil
	}
	return &Stamp{At: c.at, AgoMs: time.Since(c.arrived).Milliseconds()}
}
