package store

import (
	"context"
	"sync"
	"time"

	"quantix/db"
)

const (
	pulseLimit = 2 * time.Second // for one proof
	pulseLife  = time.Second     // how long one is good for: whoever asks in between gets the same answer
)

// takeRoom needs a MiB of PostgreSQL's disk for a moment: on a full one the pulse still finds room in its own page.
const takeRoom = `CREATE TEMPORARY TABLE room ON COMMIT DROP AS SELECT * FROM generate_series(1, 30000)`

// pulse is the newest proof that the database takes changes. One at a time is made, however many ask.
type pulse struct {
	mu    sync.Mutex
	open  chan struct{} // closed when the proof that is being made is there
	at    time.Time
	state error
	full  int64 // db.FullDisks when there was last room for more
}

// Ready proves that the database takes changes. It writes at most once a second.
func (s *Store) Ready(ctx context.Context) error {
	p := &s.pulse
	p.mu.Lock()
	if p.open == nil && time.Since(p.at) < pulseLife {
		defer p.mu.Unlock()
		return p.state
	}
	if p.open == nil {
		p.open = make(chan struct{})
		go s.feel()
	}
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return Unavailable(ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// feel makes one proof. Where there is none any more, the connections are dropped once: they may lead to a server that hangs or is
// no primary, while new ones find the one that is. A pool whose connections are all at work says nothing about the server.
func (s *Store) feel() {
	ctx, cancel := context.WithTimeout(context.Background(), pulseLimit)
	defer cancel()
	p := &s.pulse
	full := db.FullDisks()
	p.mu.Lock()
	doubted := full != p.full
	p.mu.Unlock()
	err := s.Pulse(ctx)
	if err == nil && doubted { // a change was refused for want of room since
		_, err = s.pool.Exec(ctx, takeRoom)
	}
	err = Err(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.full = full
	}
	if now := s.pool.Stat(); err != nil && p.state == nil && now.AcquiredConns() < now.MaxConns() {
		s.pool.Reset()
	}
	close(p.open)
	p.open, p.at, p.state = nil, time.Now(), err
}
