package conn

import (
	"context"
	"sync"
)

// Subscribers holds the channels to wake.
type Subscribers struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

// Add returns a channel that receives a wake-up after each change, until ctx ends.
func (s *Subscribers) Add(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[chan struct{}]bool{}
	}
	s.all[ch] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, ch)
	})
	return ch
}

// WakeAll sends a wake-up to all subscribers.
func (s *Subscribers) WakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.all {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
