package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// histogram counts durations in buckets that are 9 % wide, without a lock.
type histogram struct{ n [buckets]atomic.Int64 }

const (
	buckets = 192
	finest  = 20 * time.Microsecond
	perTwo  = 8 // buckets from one duration to its double
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > finest {
		i = min(int(math.Log2(float64(d)/float64(finest))*perTwo)+1, buckets-1)
	}
	h.n[i].Add(1)
}

// sums is what a histogram held at one moment.
type sums [buckets]int64

func (h *histogram) now() (t sums) {
	for i := range t {
		t[i] = h.n[i].Load()
	}
	return t
}

func (t sums) since(before sums) sums {
	for i := range t {
		t[i] -= before[i]
	}
	return t
}

func (t sums) count() (n int64) {
	for _, c := range t {
		n += c
	}
	return n
}

// at is the p-th part's duration, to 9 %: the upper edge of its bucket. 0: nothing was counted.
func (t sums) at(p float64) time.Duration {
	left := int64(math.Ceil(float64(t.count()) * p))
	for i, c := range t {
		if left -= c; left <= 0 && c > 0 {
			return time.Duration(float64(finest) * math.Exp2(float64(i)/perTwo))
		}
	}
	return 0
}

// counts is all that is counted and timed in a run.
type counts struct {
	beats     histogram // reports in which nothing changed
	reports   histogram // full ones
	finishes  histogram
	claims    atomic.Int64 // answered, with work or without
	jobs      atomic.Int64
	changed   atomic.Int64 // VMs that changed
	told      atomic.Int64 // of those, what a portal has taken
	resends   atomic.Int64 // full reports that the portal asked for
	helloes   atomic.Int64
	streams   atomic.Int64 // that are open
	refreshes histogram
	waits     histogram // from a poke to the refreshed part
	opened    histogram // pages, all kinds
	pages     sync.Map  // kind of page -> *histogram
}

func (c *counts) page(kind string) *histogram {
	h, ok := c.pages.Load(kind)
	if !ok {
		h, _ = c.pages.LoadOrStore(kind, new(histogram))
	}
	return h.(*histogram)
}

// faults counts what went wrong, by what was tried, and keeps the first words of each.
type faults struct {
	lock  sync.Mutex
	all   int64
	kinds map[string]int64
	words map[string]string
}

func (f *faults) fault(what string, err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.kinds == nil {
		f.kinds, f.words = map[string]int64{}, map[string]string{}
	}
	f.all++
	if f.kinds[what]++; f.kinds[what] == 1 {
		f.words[what] = err.Error()
	}
}

// forget begins anew.
func (f *faults) forget() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.all, f.kinds, f.words = 0, nil, nil
}
