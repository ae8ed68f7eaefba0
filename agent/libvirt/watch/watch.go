// Package watch caches values that may take long to read, such as the state of network storage.
package watch

import (
	"context"
	"sync"
	"time"
)

// StalledAfter is the duration of a read after which the host's report describes the storage or libvirt as hanging.
const StalledAfter = 10 * time.Second

// Value caches the newest result of a read that may hang, such as a read of network storage. Only one read runs at
// a time, so hanging storage blocks one connection and one thread of libvirtd. Callers wait for a limited time and
// otherwise get the previous result.
type Value[T any] struct {
	mu          sync.Mutex
	value       T
	known       bool
	valueReadAt time.Time     // start of the read that returned value
	staleBefore time.Time     // value is outdated if its read began before this time
	readBegan   time.Time     // start of the running read
	readDone    chan struct{} // nil: no read is running
	readError   error         // error of the newest read; value then comes from an earlier one
}

// State is the content of a Value at one time.
type State[T any] struct {
	Value   T
	Known   bool          // false: no read has succeeded yet
	Running time.Duration // duration of the running read; 0: no read is running
	Began   time.Time     // start of the running read
	Err     error         // error of the newest read
}

// Read returns the newest result. If the result is older than age, Read waits at most maxWait for a new one.
func (w *Value[T]) Read(ctx context.Context, age, maxWait time.Duration, load func() (T, error)) State[T] {
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	for {
		done := w.refresh(age, maxWait, load)
		if done == nil {
			break
		}
		select {
		case <-done:
			if w.isFresh() {
				return w.State()
			}
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		break
	}
	return w.State()
}

// refresh starts a read if one is due and returns a channel that closes when the read ends. It returns nil if the value
// is recent, or if the running read has already taken longer than maxWait.
func (w *Value[T]) refresh(age, maxWait time.Duration, load func() (T, error)) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.readDone != nil {
		if now.Sub(w.readBegan) > maxWait {
			return nil
		}
		return w.readDone
	}
	if now.Sub(w.valueReadAt) < age && w.valueReadAt.After(w.staleBefore) {
		return nil
	}
	w.readBegan, w.readDone = now, make(chan struct{})
	go func() {
		v, err := load()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.readError = err; err == nil {
			w.value, w.known = v, true
		}
		w.valueReadAt, w.readBegan = w.readBegan, time.Time{}
		close(w.readDone)
		w.readDone = nil
	}()
	return w.readDone
}

// isFresh reports whether the newest read began after the last call of Expire.
func (w *Value[T]) isFresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.valueReadAt.After(w.staleBefore)
}

// Expire makes the next call of Read start a new read.
func (w *Value[T]) Expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.staleBefore = time.Now()
}

// State returns the last value read, the duration of the running read and the error of the newest read.
func (w *Value[T]) State() State[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State[T]{Value: w.value, Known: w.known, Began: w.readBegan, Err: w.readError}
	if w.readDone != nil {
		s.Running = time.Since(w.readBegan)
	}
	return s
}
