package libvirt

import (
	"context"
	"sync"
	"time"
)

// watch keeps the newest result of a look that may hang, such as one at network storage. One look is under way at a
// time, so that what hangs below holds one connection and one thread of libvirtd, never more; readers wait for a bounded
// time and else get what was seen before.
type watch[T any] struct {
	mu     sync.Mutex
	value  T
	known  bool
	at     time.Time     // when the look that gave value began
	stale  time.Time     // value is too old if its look began before this
	began  time.Time     // of the look under way
	done   chan struct{} // nil: none is under way
	failed error         // of the newest look; value is then from before
}

// sight is what a watch knows.
type sight[T any] struct {
	value T
	known bool          // false: no look has ever ended well
	late  time.Duration // how long the look under way has taken; 0: none is
	began time.Time     // of the look under way
	err   error         // why the newest look failed
}

// read returns the newest result, after a look that is younger than age, if that comes within patience.
func (w *watch[T]) read(ctx context.Context, age, patience time.Duration, look func() (T, error)) sight[T] {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		done := w.refresh(age, patience, look)
		if done == nil {
			break
		}
		select {
		case <-done:
			if w.fresh() {
				return w.sight()
			}
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		break
	}
	return w.sight()
}

// refresh starts a look if one is due, and returns what to wait for: nil where the value is good, or where waiting is
// known to be in vain.
func (w *watch[T]) refresh(age, patience time.Duration, look func() (T, error)) <-chan struct{} {
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
		v, err := look()
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

// fresh reports whether the newest look began after the last expire.
func (w *watch[T]) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.After(w.stale)
}

// expire makes the next read look again.
func (w *watch[T]) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = time.Now()
}

func (w *watch[T]) sight() sight[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sight[T]{value: w.value, known: w.known, began: w.began, err: w.failed}
	if w.done != nil {
		s.late = time.Since(w.began)
	}
	return s
}
