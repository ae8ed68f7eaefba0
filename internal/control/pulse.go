package control

import (
	"context"
	"sync"
	"time"

	"quantix/internal/fleet"
)

const (
	pulseLimit = 2 * time.Second // for one proof
	pulseLife  = time.Second     // how long one is good for: whoever asks in between gets the same answer
	pulseEvery = 5 * time.Second // between those that nobody asks for
)

// pulse is the newest proof that the database takes changes. One at a time is made, however many ask.
type pulse struct {
	mu    sync.Mutex
	open  chan struct{} // closed when the proof that is being made is there
	at    time.Time
	state error
}

// Ready proves that the portal can do its work: that the database takes changes. It writes at most once a second.
func (c *Control) Ready(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	p := &c.pulse
	p.mu.Lock()
	if p.open == nil && time.Since(p.at) < pulseLife {
		defer p.mu.Unlock()
		return p.state
	}
	if p.open == nil {
		p.open = make(chan struct{})
		go c.feel()
	}
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// feel makes one proof. Where there is none any more, the connections are dropped once: they may lead to a server that hangs or is
// no primary, while new ones find the one that is. A pool whose connections are all at work says nothing about the server.
func (c *Control) feel() {
	ctx, cancel := context.WithTimeout(context.Background(), pulseLimit)
	defer cancel()
	err := dbError(c.q.Pulse(ctx))
	p := &c.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := c.db.pool.Stat(); err != nil && p.state == nil && now.AcquiredConns() < now.MaxConns() {
		c.db.pool.Reset()
	}
	close(p.open)
	p.open, p.at, p.state = nil, time.Now(), err
}

// KeepPulse proves the database now and then until ctx ends, so that a lost one is left also where nobody asks for readiness.
func (c *Control) KeepPulse(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	beat := time.NewTicker(pulseEvery)
	defer beat.Stop()
	well := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		err := c.Ready(ctx, a)
		if ctx.Err() == nil && (err == nil) != well {
			if well = err == nil; well {
				c.log.Info("the database takes changes again")
			} else {
				c.log.Warn("the database takes no changes", "error", err)
			}
		}
	}
}
