package libvirt

import (
	"context"
	"fmt"
	"sync"
)

// locks holds one lock a key, so that two orders never work on one thing at once.
type locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]chan struct{}
}

// lock waits for the key's lock or for the end of ctx.
func (l *locks[K]) lock(ctx context.Context, key K) (unlock func(), err error) {
	for {
		l.mu.Lock()
		busy := l.held[key]
		if busy == nil {
			mine := make(chan struct{})
			if l.held == nil {
				l.held = map[K]chan struct{}{}
			}
			l.held[key] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.held, key)
				l.mu.Unlock()
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the order before: %w", ctx.Err())
		}
	}
}
