package timeseries

import (
	"math"
	"time"
)

// Point is the mean, the minimum and the maximum of a metric over one step of time. NaN: no value is known of that time.
type Point struct{ Mean, Min, Max float64 }

func missingPoint() Point { return Point{math.NaN(), math.NaN(), math.NaN()} }

// IsMissing reports whether there is no value.
func (p Point) IsMissing() bool { return math.IsNaN(p.Mean) }

// Buckets collects values of one object into points of equal length. A value counts for the time that it was measured
// over, so that reports at irregular times make no gaps, and a bucket without any measured time is a gap.
type Buckets struct {
	start time.Time
	step  time.Duration
	n     int
	sums  map[int][]bucket // by metric number
}

type bucket struct {
	weight, sum float64 // seconds, and value × seconds
	min, max    float64
}

// NewBuckets returns n empty buckets of the length step.
func NewBuckets(start time.Time, step time.Duration, n int) *Buckets {
	return &Buckets{start: start, step: step, n: n, sums: map[int][]bucket{}}
}

// Add adds a value that was measured over the time until end. Time outside the buckets is ignored.
func (b *Buckets) Add(metric int, end time.Time, over time.Duration, p Point) {
	if p.IsMissing() || over <= 0 {
		return
	}
	from, to := end.Add(-over).Sub(b.start), end.Sub(b.start)
	first, last := int(max(from, 0)/b.step), int((to-1)/b.step)
	if to <= 0 || first >= b.n {
		return
	}
	all := b.sums[metric]
	if all == nil {
		all = make([]bucket, b.n)
		b.sums[metric] = all
	}
	for i := first; i <= min(last, b.n-1); i++ {
		begin := time.Duration(i) * b.step
		seconds := (min(to, begin+b.step) - max(from, begin)).Seconds()
		at := &all[i]
		if at.weight == 0 {
			at.min, at.max = p.Min, p.Max
		}
		at.weight += seconds
		at.sum += p.Mean * seconds
		at.min, at.max = min(at.min, p.Min), max(at.max, p.Max)
	}
}

// AddValue adds a single measured value: see Add.
func (b *Buckets) AddValue(metric int, end time.Time, over time.Duration, v float64) {
	b.Add(metric, end, over, Point{v, v, v})
}

// Points returns the points by metric number. A metric without any value is missing.
func (b *Buckets) Points() map[int][]Point {
	out := make(map[int][]Point, len(b.sums))
	for metric, all := range b.sums {
		points := make([]Point, b.n)
		for i, at := range all {
			points[i] = missingPoint()
			if at.weight > 0 {
				points[i] = Point{at.sum / at.weight, at.min, at.max}
			}
		}
		out[metric] = points
	}
	return out
}
