package libvirt

import (
	"context"
	"sync"
	"time"
)

// watch caches the newest result of a read that may hang, such as a read of network storage. Only one read runs at a
// time, so hanging storage blocks one connection and one thread of libvirtd. Callers wait for a limited time and
// otherwise get the previous result.
type watch[T any] struct {
	mu     sync.Mutex
	value  T
	known  bool
	at     time.Time     // start of the read that returned value
	stale  time.Time     // value is outdated if its read began before this time
	began  time.Time     // start of the running read
	done   chan struct{} // nil: no read is running
	failed error         // error of the newest read; value then comes from an earlier one
}

// watchState is the content of a watch at one time.
type watchState[T any] struct {
	value T
	known bool          // false: no read has succeeded yet
	late  time.Duration // duration of the running read; 0: no read is running
	began time.Time     // start of the running read
	err   error         // error of the newest read
}

// read returns the newest result. If the result is older than age, read waits at most patience for a new one.
func (w *watch[T]) read(ctx context.Context, age, patience time.Duration, load func() (T, error)) watchState[T] {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		done := w.refresh(age, patience, load)
		if done == nil {
			break
		}
		select {
		case <-done:
			if w.isFresh() {
				return w.state()
			}
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		break
	}
	return w.state()
}

// refresh starts a read if one is due and returns a channel that closes when the read ends. It returns nil if the value
// is recent, or if the running read has already exceeded patience.
func (w *watch[T]) refresh(age, patience time.Duration, load func() (T, error)) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.done != nil {
		if now.Sub(w.began) > patience {
			return nil
		}
		return w.done
	}
	if now.Sub(w.at) < age && w.at.After(w.stale) {
		return nil
	}
	w.began, w.done = now, make(chan struct{})
	go func() {
		v, err := load()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failed = err; err == nil {
			w.value, w.known = v, true
		}
		w.at, w.began = w.began, time.Time{}
		close(w.done)
		w.done = nil
	}()
	return w.done
}

// isFresh reports whether the newest read began after the last call of expire.
func (w *watch[T]) isFresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.After(w.stale)
}

// expire makes the next call of read start a new read.
func (w *watch[T]) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = time.Now()
}

// state returns the last value read, the duration of the running read and the error of the newest read.
func (w *watch[T]) state() watchState[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := watchState[T]{value: w.value, known: w.known, began: w.began, err: w.failed}
	if w.done != nil {
		s.late = time.Since(w.began)
	}
	return s
}
