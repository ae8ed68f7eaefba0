package agentapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"quantix/internal/control/store"
)

// together asks for many at once: while one question is under way, whoever comes waits for the next, which is then for all of them. Who
// comes alone waits for nobody.
type together[I, O any] struct {
	// ask gives one O for each I. It waits no longer than patience for what somebody has locked; 0: as long as it may take.
	ask     func(ctx context.Context, patience time.Duration, in []I) ([]O, error)
	most    int // who may ask at once
	mu      sync.Mutex
	waiting []*asker[I, O]
	busy    bool // a question is under way
}

// asker is one who waits for an answer.
type asker[I, O any] struct {
	in   I
	ctx  context.Context
	out  O
	err  error
	done chan struct{}
}

// patience is how long a question may wait for a lock while others wait for the question.
const patience = 100 * time.Millisecond

// do asks in, with others perhaps. A question about many that fails is asked for each alone, and so is one that waits for a lock: nobody
// fails or waits for another.
func (t *together[I, O]) do(ctx context.Context, in I) (O, error) {
	out, errs := t.doAll(ctx, []I{in})
	return out[0], errs[0]
}

// doAll asks each of in as do does, at once.
func (t *together[I, O]) doAll(ctx context.Context, in []I) (out []O, errs []error) {
	all := make([]*asker[I, O], len(in))
	for i, one := range in {
		all[i] = &asker[I, O]{in: one, ctx: ctx, done: make(chan struct{})}
	}
	t.mu.Lock()
	t.waiting = append(t.waiting, all...)
	if !t.busy && len(all) > 0 {
		t.busy = true
		go t.serve()
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

// serve asks until nobody waits. It outlives the request that began it, for others wait on it.
func (t *together[I, O]) serve() {
	for {
		t.mu.Lock()
		n := min(len(t.waiting), t.most)
		next := t.waiting[:n:n]
		if t.waiting = t.waiting[n:]; n == 0 {
			t.waiting, t.busy = nil, false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if err := t.answer(next, patience); errors.Is(err, store.ErrLocked) || err != nil && n > 1 {
			for _, a := range next {
				go t.alone(a)
			}
			continue
		}
		for _, a := range next {
			close(a.done)
		}
	}
}

func (t *together[I, O]) alone(a *asker[I, O]) {
	_ = t.answer([]*asker[I, O]{a}, 0) // the asker has it
	close(a.done)
}

// answer asks once for all of them who are still there; err is also what each of them gets.
func (t *together[I, O]) answer(all []*asker[I, O], patience time.Duration) (err error) {
	defer func() {
		if err != nil {
			for _, a := range all {
				a.err = err
			}
		}
	}()
	defer store.Recovered(&err)
	var in []I
	var here []*asker[I, O]
	for _, a := range all {
		if a.err = nil; a.ctx.Err() == nil {
			in, here = append(in, a.in), append(here, a)
		}
	}
	if len(in) == 0 {
		return nil
	}
	out, err := t.ask(context.Background(), patience, in)
	if err != nil {
		return err
	}
	for i, a := range here {
		a.out = out[i]
	}
	return nil
}
