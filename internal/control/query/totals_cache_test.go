package query

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
)

// testCache is a totalsCache of one key, whose next counted value the test sets.
type testCache struct {
	totalsCache[string, int]
	truthMu sync.Mutex // protects the fields below
	fakeCount
	counts          int // number of counts
	reportedChanges int // number of reported changes
}

type fakeCount struct {
	value, hostCount int
	err              error
	panics           bool
	duration         time.Duration // duration of one count
}

func newTestCache(size int) *testCache {
	c := &testCache{fakeCount: fakeCount{hostCount: size}}
	c.count = func(context.Context, []string) (map[string]int, error) {
		time.Sleep(c.currentCount().duration)
		c.truthMu.Lock()
		defer c.truthMu.Unlock()
		if c.counts++; c.panics {
			panic("broken")
		}
		return map[string]int{"a": c.value}, c.err
	}
	c.hosts = func(int) int { return c.currentCount().hostCount }
	c.changed = func(_ string, was, now int) {
		c.truthMu.Lock()
		defer c.truthMu.Unlock()
		if was != now {
			c.reportedChanges++
		}
	}
	return c
}

func (c *testCache) currentCount() fakeCount {
	c.truthMu.Lock()
	defer c.truthMu.Unlock()
	return c.fakeCount
}

// changeCount changes the fake count with so, which sets what the next counts return.
func (c *testCache) changeCount(so func(*fakeCount)) {
	c.truthMu.Lock()
	defer c.truthMu.Unlock()
	so(&c.fakeCount)
}

// setValue sets the value.
func (c *testCache) setValue(value int) { c.changeCount(func(t *fakeCount) { t.value = value }) }

// countsAndChanges returns how often the cache has counted, and how many changes it has reported.
func (c *testCache) countsAndChanges() (times, reported int) {
	c.truthMu.Lock()
	defer c.truthMu.Unlock()
	return c.counts, c.reportedChanges
}

// wantValue reads the value from the cache and fails the test if the value or the number of counts so far is not the
// expected one.
func (c *testCache) wantValue(t *testing.T, what string, value, times int) {
	t.Helper()
	got, err := c.getTotal(t.Context(), "a")
	if counted, _ := c.countsAndChanges(); err != nil || got != value || counted != times {
		t.Errorf("%s: got %d, counted %d times (%v), want %d and %d", what, got, counted, err, value, times)
	}
}

func advanceTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestTotalOverManyHostsIsRefreshedInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts + 1)
		c.wantValue(t, "first", 0, 1)
		c.setValue(1)
		for range 100 {
			c.wantValue(t, "cached", 0, 1)
		}
		advanceTime(refreshInterval)
		c.wantValue(t, "after a background count", 1, 2)
		if _, reported := c.countsAndChanges(); reported != 1 {
			t.Errorf("%d changes reported, want 1", reported)
		}
		advanceTime(refreshInterval)
		c.wantValue(t, "unchanged", 1, 3)
		if _, reported := c.countsAndChanges(); reported != 1 {
			t.Errorf("%d changes reported after an unchanged count, want 1", reported)
		}
		advanceTime(idleTimeout + 2*refreshInterval)
		times, _ := c.countsAndChanges()
		advanceTime(time.Hour)
		if now, _ := c.countsAndChanges(); now != times {
			t.Errorf("%d further counts without requests", now-times)
		}
		c.setValue(2)
		c.wantValue(t, "after a long time", 2, times+1)

		c.changeCount(func(t *fakeCount) { t.value, t.err = 3, errors.New("no database") })
		advanceTime(refreshInterval)
		c.wantValue(t, "while counting fails", 2, times+2)
		advanceTime(maxTotalAge)
		if got, err := c.getTotal(t.Context(), "a"); err == nil {
			t.Errorf("expired value returned: %d", got)
		}
		c.changeCount(func(t *fakeCount) { t.panics = true })
		advanceTime(refreshInterval)
		c.changeCount(func(t *fakeCount) { t.err, t.panics = nil, false })
		if got, err := c.getTotal(t.Context(), "a"); err != nil || got != 3 {
			t.Errorf("after the failures: got %d, %v", got, err)
		}
		advanceTime(idleTimeout + 2*refreshInterval)
	})
}

func TestTotalOverFewHostsIsCountedPerRequest(t *testing.T) {
	c := newTestCache(maxUncachedHosts)
	for n := range 3 {
		c.setValue(n)
		c.wantValue(t, "narrow", n, n+1)
	}
}

// A total is cached once its number of hosts exceeds maxUncachedHosts, and no longer once it is below.
func TestTotalsAreCachedOnlyForManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts)
		c.wantValue(t, "narrow", 0, 1)
		c.changeCount(func(t *fakeCount) { t.hostCount++ })
		c.wantValue(t, "just wide", 0, 2)
		c.wantValue(t, "wide", 0, 2)
		c.changeCount(func(t *fakeCount) { t.hostCount-- })
		advanceTime(refreshInterval)
		c.wantValue(t, "narrow again", 0, 4)
		c.wantValue(t, "and again", 0, 5)
		advanceTime(refreshInterval)
		c.wantValue(t, "no background count", 0, 6)
	})
}

// A transaction computes totals itself and sees its own changes. Its results are not cached.
func TestTransactionBypassesCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts + 1)
		within := store.WithTx(t.Context(), struct{ pgx.Tx }{})
		c.setValue(7)
		if got, err := c.getTotal(within, "a"); err != nil || got != 7 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.setValue(1)
		c.wantValue(t, "without", 1, 2)
		c.setValue(8)
		if got, err := c.getTotal(within, "a"); err != nil || got != 8 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.setValue(1)
		c.wantValue(t, "without", 1, 3)
		advanceTime(idleTimeout + 2*refreshInterval)
	})
}

// A prefetched key is cached before its first request.
func TestPrefetchFillsCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts + 1)
		c.prefetchTotal("a")
		c.prefetchTotal("a")
		synctest.Wait()
		c.wantValue(t, "warm", 0, 1)
		if _, reported := c.countsAndChanges(); reported != 0 {
			t.Error("a change was reported although no value had been read")
		}
		advanceTime(idleTimeout + 2*refreshInterval)
	})
}

// Requests during a count of an expired value share that count's result.
func TestConcurrentRequestsShareOneCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts + 1)
		c.wantValue(t, "first", 0, 1)
		c.changeCount(func(t *fakeCount) { t.value, t.duration = 1, maxTotalAge })
		advanceTime(refreshInterval + 2500*time.Millisecond) // the background count has begun, and the cached value has expired
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { c.wantValue(t, "during a count", 1, 2) })
		}
		all.Wait()
		advanceTime(time.Hour)
	})
}

// A slow count starts early enough that no request has to wait for it.
func TestSlowCountIsRefreshedBeforeCachedTotalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(maxUncachedHosts + 1)
		c.changeCount(func(t *fakeCount) { t.duration = 1500 * time.Millisecond })
		c.wantValue(t, "first", 0, 1)
		for range 300 {
			advanceTime(100 * time.Millisecond)
			began := time.Now()
			if _, err := c.getTotal(t.Context(), "a"); err != nil || time.Since(began) > 0 {
				t.Fatalf("waited %s, %v", time.Since(began), err)
			}
		}
		advanceTime(time.Hour)
	})
}
