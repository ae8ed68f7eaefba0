package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// histogram counts durations in buckets of 9 % width. It is lock-free.
type histogram struct{ n [buckets]atomic.Int64 }

const (
	buckets     = 192
	smallest    = 20 * time.Microsecond
	perDoubling = 8 // number of buckets between a duration and its double
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > smallest {
		i = min(int(math.Log2(float64(d)/float64(smallest))*perDoubling)+1, buckets-1)
	}
	h.n[i].Add(1)
}

// bucketCounts is a histogram at one moment: the count of each bucket.
type bucketCounts [buckets]int64

func (h *histogram) bucketCounts() (t bucketCounts) {
	for i := range t {
		t[i] = h.n[i].Load()
	}
	return t
}

func (t bucketCounts) since(before bucketCounts) bucketCounts {
	for i := range t {
		t[i] -= before[i]
	}
	return t
}

func (t bucketCounts) count() (n int64) {
	for _, c := range t {
		n += c
	}
	return n
}

// quantile returns the p-quantile, accurate to 9 %: the upper edge of the quantile's bucket. It is 0 if the histogram
// is empty.
func (t bucketCounts) quantile(p float64) time.Duration {
	left := int64(math.Ceil(float64(t.count()) * p))
	for i, c := range t {
		if left -= c; left <= 0 && c > 0 {
			return time.Duration(float64(smallest) * math.Exp2(float64(i)/perDoubling))
		}
	}
	return 0
}

// counts holds all counters and durations of a run.
type counts struct {
	beats     histogram // heartbeats without changes
	reports   histogram // full reports
	finishes  histogram
	claims    atomic.Int64 // answered claims, with or without jobs
	jobs      atomic.Int64
	changed   atomic.Int64 // changes of VMs
	sent      atomic.Int64 // changes that the portal accepted
	resends   atomic.Int64 // full reports that the portal requested
	helloes   atomic.Int64
	streams   atomic.Int64 // open streams of tabs
	refreshes histogram
	waits     histogram // time from an event to the refresh that shows it
	opened    histogram // pages of all kinds
	pages     sync.Map  // kind of page -> *histogram
}

func (c *counts) pageHistogram(kind string) *histogram {
	h, ok := c.pages.Load(kind)
	if !ok {
		h, _ = c.pages.LoadOrStore(kind, new(histogram))
	}
	return h.(*histogram)
}

// failureCounts counts failures by operation and stores the first error text of each operation.
type failureCounts struct {
	lock  sync.Mutex
	all   int64
	kinds map[string]int64
	texts map[string]string
}

func (f *failureCounts) addFailure(what string, err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.kinds == nil {
		f.kinds, f.texts = map[string]int64{}, map[string]string{}
	}
	f.all++
	if f.kinds[what]++; f.kinds[what] == 1 {
		f.texts[what] = err.Error()
	}
}

// reset clears all counts.
func (f *failureCounts) reset() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.all, f.kinds, f.texts = 0, nil, nil
}
