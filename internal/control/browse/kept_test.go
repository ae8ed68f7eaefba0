package browse

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
)

// counting is a kept whose truth the test sets.
type counting struct {
	kept[string, int]
	truth, size int
	err         error
	panics      bool
	times       int // it was counted
	told        int // of changes
}

func newCounting(size int) *counting {
	c := &counting{size: size}
	c.count = func(context.Context, []string) (map[string]int, error) {
		if c.times++; c.panics {
			panic("broken")
		}
		return map[string]int{"a": c.truth}, c.err
	}
	c.hosts = func(int) int { return c.size }
	c.changed = func(_ string, was, now int) {
		if was != now {
			c.told++
		}
	}
	return c
}

// wants asks, and says what it should have got and how often that was counted by then.
func (c *counting) wants(t *testing.T, what string, value, times int) {
	t.Helper()
	got, err := c.one(t.Context(), "a")
	if err != nil || got != value || c.times != times {
		t.Errorf("%s: got %d, counted %d times (%v), want %d and %d", what, got, c.times, err, value, times)
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
		c.truth = 1
		for range 100 {
			c.wants(t, "at once", 0, 1)
		}
		pass(keepFor)
		c.wants(t, "behind", 1, 2)
		if c.told != 1 {
			t.Errorf("who was shown another is told %d times", c.told)
		}
		pass(keepFor)
		c.wants(t, "unchanged", 1, 3)
		if c.told != 1 {
			t.Errorf("told %d times of one change", c.told)
		}
		pass(keepWarm + 2*keepFor)
		times := c.times
		pass(time.Hour)
		if c.times != times {
			t.Errorf("counted %d times more while nobody asks", c.times-times)
		}
		c.truth = 2
		c.wants(t, "after a long time", 2, times+1)

		c.truth, c.err = 3, errors.New("no database")
		pass(keepFor)
		c.wants(t, "while it cannot be counted", 2, times+2)
		pass(keepAtMost)
		if got, err := c.one(t.Context(), "a"); err == nil {
			t.Errorf("old news: %d", got)
		}
		c.panics = true
		pass(keepFor)
		c.err, c.panics = nil, false
		if got, err := c.one(t.Context(), "a"); err != nil || got != 3 {
			t.Errorf("it can be counted again: %d, %v", got, err)
		}
		pass(keepWarm + 2*keepFor)
	})
}

func TestWhatIsNarrowIsCountedForEach(t *testing.T) {
	c := newCounting(wide)
	for n := range 3 {
		c.truth = n
		c.wants(t, "narrow", n, n+1)
	}
}

// What has grown wide is kept, what has become narrow no more.
func TestAFleetGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide)
		c.wants(t, "narrow", 0, 1)
		c.size++
		c.wants(t, "just wide", 0, 2)
		c.wants(t, "wide", 0, 2)
		c.size--
		pass(keepFor)
		c.wants(t, "narrow again", 0, 4)
		c.wants(t, "and again", 0, 5)
		pass(keepFor)
		c.wants(t, "it is not counted behind", 0, 6)
	})
}

// A transaction sees its own changes, and what it sees is shown to nobody else.
func TestATransactionCountsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		within := store.Within(t.Context(), struct{ pgx.Tx }{})
		c.truth = 7
		if got, err := c.one(within, "a"); err != nil || got != 7 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.truth = 1
		c.wants(t, "without", 1, 2)
		c.truth = 8
		if got, err := c.one(within, "a"); err != nil || got != 8 {
			t.Errorf("within: %d, %v", got, err)
		}
		c.truth = 1
		c.wants(t, "without", 1, 3)
		pass(keepWarm + 2*keepFor)
	})
}

// What is warmed is there for who asks a moment later.
func TestWarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(wide + 1)
		c.warm("a")
		c.warm("a")
		synctest.Wait()
		c.wants(t, "warm", 0, 1)
		if c.told != 0 {
			t.Error("somebody is told of what nobody was shown")
		}
		pass(keepWarm + 2*keepFor)
	})
}
