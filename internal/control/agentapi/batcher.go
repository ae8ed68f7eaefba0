package agentapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"quantix/internal/control/store"
)

// callBatcher processes concurrent calls in batches. While one batch is running, it collects further calls for the next
// batch. A call starts at once if no batch is running.
type callBatcher[I, O any] struct {
	// process processes the inputs of a batch and returns one output for each. It waits at most patience for a lock, or
	// without limit if patience is 0.
	process      func(ctx context.Context, patience time.Duration, in []I) ([]O, error)
	maxBatch     int // maximum batch size
	mu           sync.Mutex
	waiting      []*pendingCall[I, O]
	batchRunning bool // a batch is running
}

// pendingCall is one waiting call.
type pendingCall[I, O any] struct {
	in   I
	ctx  context.Context
	out  O
	err  error
	done chan struct{}
}

// lockTimeout is how long a batch of several calls may wait for a lock.
const lockTimeout = 100 * time.Millisecond

// processOne processes one input, possibly in a batch with other calls. If a batch fails or waits for a lock, its calls
// are repeated one by one, so that no call fails or waits because of another.
func (t *callBatcher[I, O]) processOne(ctx context.Context, in I) (O, error) {
	out, errs := t.processAll(ctx, []I{in})
	return out[0], errs[0]
}

// processAll processes each input as processOne does, all concurrently.
func (t *callBatcher[I, O]) processAll(ctx context.Context, in []I) (out []O, errs []error) {
	all := make([]*pendingCall[I, O], len(in))
	for i, one := range in {
		all[i] = &pendingCall[I, O]{in: one, ctx: ctx, done: make(chan struct{})}
	}
	t.mu.Lock()
	t.waiting = append(t.waiting, all...)
	if !t.batchRunning && len(all) > 0 {
		t.batchRunning = true
		go t.runBatches()
	}
	t.mu.Unlock()
	out, errs = make([]O, len(in)), make([]error, len(in))
	for i, a := range all {
		select {
		case <-a.done:
			out[i], errs[i] = a.out, a.err
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
	}
	return out, errs
}

// runBatches runs batches until no call is waiting. It does not use a request's context, because other requests wait
// for the same batch.
func (t *callBatcher[I, O]) runBatches() {
	for {
		t.mu.Lock()
		n := min(len(t.waiting), t.maxBatch)
		next := t.waiting[:n:n]
		if t.waiting = t.waiting[n:]; n == 0 {
			t.waiting, t.batchRunning = nil, false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if err := t.runBatch(next, lockTimeout); errors.Is(err, store.ErrLocked) || err != nil && n > 1 {
			for _, a := range next {
				go t.runSingleCall(a)
			}
			continue
		}
		for _, a := range next {
			close(a.done)
		}
	}
}

func (t *callBatcher[I, O]) runSingleCall(a *pendingCall[I, O]) {
	_ = t.runBatch([]*pendingCall[I, O]{a}, 0) // the error is stored in a
	close(a.done)
}

// runBatch runs one batch with the calls that are still waiting. It returns the batch's error and stores it in each
// call.
func (t *callBatcher[I, O]) runBatch(all []*pendingCall[I, O], patience time.Duration) (err error) {
	defer func() {
		if err != nil {
			for _, a := range all {
				a.err = err
			}
		}
	}()
	defer store.RecoverAsError(&err)
	var in []I
	var here []*pendingCall[I, O]
	for _, a := range all {
		if a.err = nil; a.ctx.Err() == nil {
			in, here = append(in, a.in), append(here, a)
		}
	}
	if len(in) == 0 {
		return nil
	}
	out, err := t.process(context.Background(), patience, in)
	if err != nil {
		return err
	}
	for i, a := range here {
		a.out = out[i]
	}
	return nil
}
