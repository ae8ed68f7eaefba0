package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestValueWatchRunsOneReadAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Value[int64]
		open := make(chan struct{})
		var loads atomic.Int64
		load := func() (int64, error) { n := loads.Add(1); <-open; return n, nil }
		ctx := context.Background()

		// The first caller waits for its maxWait. The next caller does not wait, because the read hangs.
		if s := w.Read(ctx, time.Second, 2*time.Second, load); s.Known || s.Running != 2*time.Second {
			t.Errorf("while the read hangs: %+v", s)
		}
		time.Sleep(time.Minute)
		begun := time.Now()
		if s := w.Read(ctx, time.Second, 2*time.Second, load); s.Known || s.Running < time.Minute || time.Since(begun) != 0 {
			t.Errorf("after a minute: %+v, waited %s", s, time.Since(begun))
		}
		if n := loads.Load(); n != 1 {
			t.Errorf("%d reads are running", n)
		}

		close(open)
		synctest.Wait()
		if s := w.Read(ctx, time.Second, time.Second, load); s.Value != 2 || s.Running != 0 {
			t.Errorf("the outdated result was returned: %+v", s)
		}
		if s := w.Read(ctx, time.Second, time.Second, load); s.Value != 2 {
			t.Errorf("a fresh value was read again: %+v", s)
		}
		time.Sleep(time.Millisecond)
		w.Expire()
		time.Sleep(time.Millisecond)
		if s := w.Read(ctx, time.Second, time.Second, load); s.Value != 3 {
			t.Errorf("an expired value was returned: %+v", s)
		}
		broken := errors.New("broken")
		if s := w.Read(ctx, 0, time.Second, func() (int64, error) { return 0, broken }); s.Value != 3 || !errors.Is(s.Err, broken) {
			t.Errorf("a failed read removed the value: %+v", s)
		}
	})
}

// A read that began before a call of Expire does not count as new.
func TestValueWatchIgnoresReadsBegunBeforeExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Value[string]
		var truth atomic.Value
		truth.Store("old")
		load := func() (string, error) { v := truth.Load().(string); time.Sleep(time.Second); return v, nil }
		go w.Read(t.Context(), time.Minute, time.Minute, load)
		time.Sleep(500 * time.Millisecond)
		truth.Store("new")
		w.Expire()
		if s := w.Read(t.Context(), time.Minute, time.Minute, load); s.Value != "new" {
			t.Errorf("got %q", s.Value)
		}
	})
}
