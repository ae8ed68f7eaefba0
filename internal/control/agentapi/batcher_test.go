package agentapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"quantix/internal/control/store"
)

// batchRecorder records the batches that a callBatcher processes. The first batch blocks until release is closed.
type batchRecorder struct {
	callBatcher[int, int]
	mu      sync.Mutex
	batches [][]int
	started chan struct{} // closed when the first batch has started
	release chan struct{} // closed by the test; the first batch then finishes
	// failsWithLock makes the first batch fail with ErrLocked. The repeated call of that batch, which has no time limit,
	// blocks until release is closed.
	failsWithLock bool
}

func newRecorder(maxBatch int, fails func(in []int) error) *batchRecorder {
	a := &batchRecorder{started: make(chan struct{}), release: make(chan struct{})}
	a.maxBatch = maxBatch
	a.process = func(_ context.Context, patience time.Duration, in []int) ([]int, error) {
		a.mu.Lock()
		a.batches = append(a.batches, in)
		first := len(a.batches) == 1
		a.mu.Unlock()
		if first {
			close(a.started)
		}
		if first && a.failsWithLock {
			return nil, store.ErrLocked
		}
		if first || patience == 0 && a.failsWithLock {
			<-a.release
		}
		if err := fails(in); err != nil {
			return nil, err
		}
		out := make([]int, len(in))
		for i, n := range in {
			out[i] = -n
		}
		return out, nil
	}
	return a
}

// callResults calls the batcher with input 1, and with the other inputs while call 1 is running, and returns all
// results by input.
func (a *batchRecorder) callResults(t *testing.T, others ...int) (out map[int]int, errs map[int]error) {
	t.Helper()
	out, errs = map[int]int{}, map[int]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	process := func(n int) {
		all.Go(func() {
			got, err := a.processOne(t.Context(), n)
			mu.Lock()
			defer mu.Unlock()
			out[n], errs[n] = got, err
		})
	}
	process(1)
	<-a.started
	for i, n := range others {
		process(n)
		a.waitForCalls(t, i+1)
	}
	close(a.release)
	all.Wait()
	return out, errs
}

// waitForCalls waits until n calls are waiting.
func (a *batchRecorder) waitForCalls(t *testing.T, n int) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		a.callBatcher.mu.Lock()
		got := len(a.waiting)
		a.callBatcher.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d calls waiting, want %d", got, n)
		}
	}
}

func batchSucceeds([]int) error { return nil }

func TestCallsDuringBatchShareNextBatch(t *testing.T) {
	t.Parallel()
	a := newRecorder(3, batchSucceeds)
	out, errs := a.callResults(t, 2, 3, 4, 5)
	for n, got := range out {
		if got != -n || errs[n] != nil {
			t.Errorf("call %d returned %d, %v", n, got, errs[n])
		}
	}
	want := [][]int{{1}, {2, 3, 4}, {5}}
	if !slices.EqualFunc(a.batches, want, slices.Equal) {
		t.Errorf("batches %v, want %v", a.batches, want)
	}
}

func TestFailedBatchIsRetriedPerCall(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, fail := range map[string]func(){
		"with an error": nil,
		"with a panic":  func() { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newRecorder(10, func(in []int) error {
				if !slices.Contains(in, 3) {
					return nil
				}
				if fail != nil {
					fail()
				}
				return no
			})
			out, errs := a.callResults(t, 2, 3, 4)
			for n := range out {
				if failed := errs[n] != nil; failed != (n == 3) || !failed && out[n] != -n {
					t.Errorf("call %d returned %d, %v", n, out[n], errs[n])
				}
			}
		})
	}
}

func TestCancelledCallIsRemovedFromNextBatch(t *testing.T) {
	t.Parallel()
	a := newRecorder(10, batchSucceeds)
	gone, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		<-a.started
		_, err := a.processOne(gone, 7)
		left <- err
	}()
	go func() {
		a.waitForCalls(t, 1)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled call returned %v", err)
		}
		close(a.release)
	}()
	if _, err := a.processOne(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if got, err := a.processOne(t.Context(), 2); err != nil || got != -2 {
		t.Errorf("the next call returned %d, %v", got, err)
	}
	for _, in := range a.batches {
		if slices.Contains(in, 7) {
			t.Errorf("batches %v", a.batches)
		}
	}
}

func TestLockedBatchIsRetriedPerCall(t *testing.T) {
	t.Parallel()
	a := newRecorder(10, batchSucceeds)
	a.failsWithLock = true
	waited := make(chan error, 1)
	go func() {
		got, err := a.processOne(t.Context(), 1)
		if err == nil && got != -1 {
			err = fmt.Errorf("returned %d", got)
		}
		waited <- err
	}()
	<-a.started
	for n := 2; n < 5; n++ {
		if got, err := a.processOne(t.Context(), n); err != nil || got != -n {
			t.Errorf("call %d returned %d, %v", n, got, err)
		}
	}
	close(a.release)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
