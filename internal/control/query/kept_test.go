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

// counting is a kept whose counted value the test sets.
type counting struct {
	kept[string, int]
	see sync.Mutex // guards the fields below
	truth
	times int // number of counts
	told  int // number of reported changes
}

type truth struct {
	value, size int
	err         error
	panics      bool
	takes       time.Duration // duration of one count
}

func newCounting(size int) *counting {
	c := &counting{truth: truth{size: size}}
	c.count = func(context.Context, []string) (map[string]int, error) {
		time.Sleep(c.now().takes)
		c.see.Lock()
		defer c.see.Unlock()
		if c.times++; c.panics {
			panic("broken")
		}
		return map[string]int{"a": c.value}, c.err
	}
	c.hosts = func(int) int { return c.now().size }
	c.changed = func(_ string, was, now int) {
		c.see.Lock()
		defer c.see.Unlock()
		if was != now {
			c.told++
		}
	}
	return c
}

func (c *counting) now() truth {
	c.see.Lock()
	defer c.see.Unlock()
	return c.truth
}

// is changes what the next counts return.
func (c *counting) is(so func(*truth)) {
	c.see.Lock()
	defer c.see.Unlock()
	so(&c.truth)
}

// are sets the value.
func (c *counting) are(value int) { c.is(func(t *truth) { t.value = value }) }

// seen returns the number of counts and of reported changes.
func (c *counting) seen() (times, told int) {
	c.see.Lock()
	defer c.see.Unlock()
	return c.times, c.told
}

// wants reads the value and compares it and the number of counts with what is expected.
func (c *counting) wants(t *testing.T, what string, value, times int) {
	t.Helper()
	got, err := c.one(t.Context(), "a")
	if counted, _ := c.seen(); err != nil || got != value || counted != times {
		t.Errorf("%s: got %d, counted %d times (%v), want %d and %d", what, got, counted, err, value, times)
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWhatIsWideIsCountedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		c.wants(t, "first", 0, 1)
		c.are(1)
		for range 100 {
			c.wants(t, "at once", 0, 1)
		}
		pass(keepFor)
		c.wants(t, "behind", 1, 2)
		if _, told := c.seen(); told != 1 {
			t.Errorf("who was shown another is told %d times", told)
		}
		pass(keepFor)
		c.wants(t, "unchanged", 1, 3)
		if _, told := c.seen(); told != 1 {
			t.Errorf("told %d times of one change", told)
		}
		pass(keepWarm + 2*keepFor)
		times, _ := c.seen()
		pass(time.Hour)
		if now, _ := c.seen(); now != times {
			t.Errorf("counted %d times more while nobody asks", now-times)
		}
		c.are(2)
		c.wants(t, "after a long time", 2, times+1)

		c.is(func(t *truth) { t.value, t.err = 3, errors.New("no database") })
		pass(keepFor)
		c.wants(t, "while it cannot be counted", 2, times+2)
		pass(keepAtMost)
		if got, err := c.one(t.Context(), "a"); err == nil {
			t.Errorf("old news: %d", got)
		}
		c.is(func(t *truth) { t.panics = true })
		pass(keepFor)
		c.is(func(t *truth) { t.err, t.panics = nil, false })
		if got, err := c.one(t.Context(), "a"); err != nil || got != 3 {
			t.Errorf("it can be counted again: %d, %v", got, err)
		}
		pass(keepWarm + 2*keepFor)
	})
}

func TestWhatIsNarrowIsCountedForEach(t *testing.T) {
	c := newCounting(wide)
	for n := range 3 {
		c.are(n)
		c.wants(t, "narrow", n, n+1)
	}
}

// A key that grows past the limit is cached; one that shrinks is no longer cached.
func TestAFleetGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide)
		c.wants(t, "narrow", 0, 1)
		c.is(func(t *truth) { t.size++ })
		c.wants(t, "just wide", 0, 2)
		c.wants(t, "wide", 0, 2)
		c.is(func(t *truth) { t.size-- })
		pass(keepFor)
		c.wants(t, "narrow again", 0, 4)
		c.wants(t, "and again", 0, 5)
		pass(keepFor)
		c.wants(t, "it is not counted behind", 0, 6)
	})
}

// A transaction sees its own changes, and its counts do not enter the cache.
func TestATransactionCountsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		within := store.Within(t.Context(), struct{ pgx.Tx }{})
		c.are(7)
		if got, err := c.one(within, "a"); err != nil || got != 7 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.are(1)
		c.wants(t, "without", 1, 2)
		c.are(8)
		if got, err := c.one(within, "a"); err != nil || got != 8 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.are(1)
		c.wants(t, "without", 1, 3)
		pass(keepWarm + 2*keepFor)
	})
}

// A warmed key is cached before its first request.
func TestWarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		c.warm("a")
		c.warm("a")
		synctest.Wait()
		c.wants(t, "warm", 0, 1)
		if _, told := c.seen(); told != 0 {
			t.Error("somebody is told of what nobody was shown")
		}
		pass(keepWarm + 2*keepFor)
	})
}

// Requests during a count of an expired value share the result of that count.
func TestOutdatedValueIsCountedOnceForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		c.wants(t, "first", 0, 1)
		c.is(func(t *truth) { t.value, t.takes = 1, keepAtMost })
		pass(keepFor + 2500*time.Millisecond) // the background count has begun and the cached value has expired
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { c.wants(t, "meanwhile", 1, 2) })
		}
		all.Wait()
		pass(time.Hour)
	})
}

// A slow count starts early enough that no request waits for it.
func TestSlowCountIsReadyBeforeItsValueIsOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		c.is(func(t *truth) { t.takes = 1500 * time.Millisecond })
		c.wants(t, "first", 0, 1)
		for range 300 {
			pass(100 * time.Millisecond)
			began := time.Now()
			if _, err := c.one(t.Context(), "a"); err != nil || time.Since(began) > 0 {
				t.Fatalf("waited %s, %v", time.Since(began), err)
			}
		}
		pass(time.Hour)
	})
}
