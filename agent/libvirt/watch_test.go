package libvirt

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
		var w valueWatch[int64]
		open := make(chan struct{})
		var loads atomic.Int64
		load := func() (int64, error) { n := loads.Add(1); <-open; return n, nil }
		ctx := context.Background()

		// The first caller waits for its patience. The next caller does not wait, because the read hangs.
		if s := w.read(ctx, time.Second, 2*time.Second, load); s.known || s.running != 2*time.Second {
			t.Errorf("while the read hangs: %+v", s)
		}
		time.Sleep(time.Minute)
		begun := time.Now()
		if s := w.read(ctx, time.Second, 2*time.Second, load); s.known || s.running < time.Minute || time.Since(begun) != 0 {
			t.Errorf("after a minute: %+v, waited %s", s, time.Since(begun))
		}
		if n := loads.Load(); n != 1 {
			t.Errorf("%d reads are running", n)
		}

		close(open)
		synctest.Wait()
		if s := w.read(ctx, time.Second, time.Second, load); s.value != 2 || s.running != 0 {
			t.Errorf("the outdated result was returned: %+v", s)
		}
		if s := w.read(ctx, time.Second, time.Second, load); s.value != 2 {
			t.Errorf("a fresh value was read again: %+v", s)
		}
		time.Sleep(time.Millisecond)
		w.expire()
		time.Sleep(time.Millisecond)
		if s := w.read(ctx, time.Second, time.Second, load); s.value != 3 {
			t.Errorf("an expired value was returned: %+v", s)
		}
		broken := errors.New("broken")
		if s := w.read(ctx, 0, time.Second, func() (int64, error) { return 0, broken }); s.value != 3 || !errors.Is(s.err, broken) {
			t.Errorf("a failed read removed the value: %+v", s)
		}
	})
}

// A read that began before a call of expire does not count as new.
func TestValueWatchIgnoresReadsBegunBeforeExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w valueWatch[string]
		var truth atomic.Value
		truth.Store("old")
		load := func() (string, error) { v := truth.Load().(string); time.Sleep(time.Second); return v, nil }
		go w.read(t.Context(), time.Minute, time.Minute, load)
		time.Sleep(500 * time.Millisecond)
		truth.Store("new")
		w.expire()
		if s := w.read(t.Context(), time.Minute, time.Minute, load); s.value != "new" {
			t.Errorf("got %q", s.value)
		}
	})
}

func TestReportedSizeChangesInSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reported, newest, total, want int64 }{
		{100, 100 + minReportedChange - 1, 0, 100},
		{100, 100 + minReportedChange, 0, 100 + minReportedChange},
		{minReportedChange * 2, minReportedChange, 0, minReportedChange},
		{100, 100 + minReportedChange, 1000 * 2 * minReportedChange, 100},
	} {
		if got := steadySize(c.reported, c.newest, c.total); got != c.want {
			t.Errorf("steady(%d, %d, %d) = %d, want %d", c.reported, c.newest, c.total, got, c.want)
		}
	}
}

// The first read of the networks is awaited, because the portal treats a missing network as deleted. Later reads are
// not awaited.
func TestFirstReportWaitsForNetworkRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w networkWatch
		slow := func() ([]networkState, error) {
			time.Sleep(networkReadTimeout + time.Second)
			return []networkState{{}}, nil
		}
		if s, err := w.readRecent(t.Context(), slow); err != nil || len(s.value) != 1 {
			t.Errorf("a slow first read: %+v, %v", s, err)
		}
		begun := time.Now()
		if s, err := w.readRecent(t.Context(), slow); err != nil || len(s.value) != 1 || time.Since(begun) != networkReadTimeout {
			t.Errorf("a slow later read: %+v, %v, after %v", s, err, time.Since(begun))
		}
		synctest.Wait()
		var hung networkWatch
		end := make(chan struct{})
		never := func() ([]networkState, error) { <-end; return nil, errConnectionLost }
		ctx, cancel := context.WithTimeout(t.Context(), hostStateTimeout)
		defer cancel()
		if _, err := hung.readRecent(ctx, never); !errors.Is(err, errNetworksNotRead) {
			t.Errorf("a first read that never ends: %v", err)
		}
		close(end)
		synctest.Wait()
		if _, err := hung.readRecent(t.Context(), never); !errors.Is(err, errConnectionLost) {
			t.Errorf("a failing read: %v", err)
		}
		if s, err := hung.readRecent(t.Context(), slow); err != nil || len(s.value) != 1 {
			t.Errorf("a slow read after a failed one: %+v, %v", s, err)
		}
	})
}
