// Package locks keeps two jobs from changing the same object or file at the same time.
package locks

import (
	"context"
	"fmt"
	"sync"
)

// ByKey is a lock per key, so that two jobs never change the same object at the same time.
type ByKey[K comparable] struct {
	mu   sync.Mutex
	held map[K]chan struct{}
}

// Lock takes the key's lock. It waits for the lock, at most until ctx ends.
func (l *ByKey[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	for {
		unlock, busy := l.TryLock(key)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the previous job: %w", ctx.Err())
		}
	}
}

// TryLock takes the key's lock if it is free. Otherwise it returns a channel that is closed when the lock is
// released.
func (l *ByKey[K]) TryLock(key K) (unlock func(), busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.held[key]; held != nil {
		return nil, held
	}
	released := make(chan struct{})
	if l.held == nil {
		l.held = map[K]chan struct{}{}
	}
	l.held[key] = released
	return func() {
		l.mu.Lock()
		delete(l.held, key)
		l.mu.Unlock()
		close(released)
	}, nil
}
