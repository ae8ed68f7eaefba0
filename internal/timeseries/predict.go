package timeseries

import (
	"cmp"
	"math"
	"slices"
	"time"

	"quantix/internal/usage"
)

// Limits of a prediction.
const (
	day            = 24 * time.Hour
	minPredictDays = 3              // days with values before a prediction
	maxPrediction  = 365 * day      // later times are not predicted
	predictAhead   = 12             // a prediction reaches at most this many times as far as the values go back
	maxTrendPoints = 400            // of all values that the fit over repeated deletions uses
	dropShare      = 0.01           // a fall by this share of the capacity is a deletion
	certainty      = 3.0            // the growth must be this many times its error
	newestValueAge = 12 * time.Hour // a prediction needs a value of this time before the end
)

// PredictFull predicts how long after the end of the points a growing level reaches the capacity. The points are those of
// the used bytes at equal distances, at most a day apart, over at least three days; missing ones are ignored. A single
// deletion or copy does not change the growth, and a level that falls again and again, such as that of rotated logs, only
// counts with its growth over the whole time, if that is more than its falls. The growth is GrowsFull only if the level
// grows by more than its noise, and will be full within a year and 12 times the time of the values. days are the days of
// the values.
func PredictFull(used []Point, step time.Duration, capacity float64) (after time.Duration, growth usage.Growth, days int) {
	if step <= 0 || step > day || !(capacity > 0) {
		return 0, usage.GrowsFew, 0
	}
	first := slices.IndexFunc(used, func(p Point) bool { return !p.IsMissing() })
	last := len(used) - 1
	for last >= 0 && used[last].IsMissing() {
		last--
	}
	span := time.Duration(last-first) * step
	days = int(span / day)
	switch {
	case first < 0:
		return 0, usage.GrowsFew, 0
	case time.Duration(len(used)-1-last)*step > newestValueAge:
		return 0, usage.GrowsStale, days
	case span < minPredictDays*day:
		return 0, usage.GrowsFew, days
	}
	perDay := int((day + step/2) / step)
	var steps []float64 // growth over a day, from each point
	for i := first; i+perDay <= last; i++ {
		if d := used[i+perDay].Mean - used[i].Mean; !math.IsNaN(d) {
			steps = append(steps, d)
		}
	}
	if len(steps) < minPredictDays || len(steps) < (last-first-perDay)/2 {
		return 0, usage.GrowsFew, days
	}
	slope := median(steps)
	spread := make([]float64, len(steps))
	for i, d := range steps {
		spread[i] = math.Abs(d - slope)
	}
	noise := median(spread) / math.Sqrt(span.Hours()/24)
	if drops(used, perDay, capacity*dropShare) > 1 {
		slope = trend(used, perDay)
		noise = max(noise, swing(used, slope/float64(perDay))/(certainty*span.Hours()/24))
	}
	if slope <= certainty*noise {
		return 0, usage.GrowsNot, days
	}
	left := max(0, capacity-level(used[:last+1])) / slope
	limit := min(maxPrediction, predictAhead*span)
	if left > limit.Hours()/24 {
		return 0, usage.GrowsSlowly, days
	}
	return time.Duration(left * float64(day)), usage.GrowsFull, days
}

// level returns the newest level: the median of the last three values.
func level(used []Point) float64 {
	var newest []float64
	for i := len(used) - 1; i >= 0 && len(newest) < 3; i-- {
		if !used[i].IsMissing() {
			newest = append(newest, used[i].Mean)
		}
	}
	return median(newest)
}

// drops returns the number of falls by at least that much between two values. Falls within a day count as one.
func drops(used []Point, perDay int, least float64) (n int) {
	before, dropped := math.NaN(), math.MinInt
	for i, p := range used {
		if p.IsMissing() {
			continue
		}
		if before-p.Mean >= least {
			if dropped == math.MinInt || i-dropped > perDay {
				n++
			}
			dropped = i
		}
		before = p.Mean
	}
	return n
}

// trend returns the growth per day over the whole time: the median of the slopes between all pairs of values.
func trend(used []Point, perDay int) float64 {
	every := max(1, len(used)/maxTrendPoints)
	var slopes []float64
	for i := 0; i < len(used); i += every {
		for j := i + every; j < len(used); j += every {
			if d := used[j].Mean - used[i].Mean; !math.IsNaN(d) {
				slopes = append(slopes, d*float64(perDay)/float64(j-i))
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return median(slopes)
}

// swing returns the distance between the highest and the lowest value, without the growth per step.
func swing(used []Point, growth float64) float64 {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, p := range used {
		if !p.IsMissing() {
			v := p.Mean - growth*float64(i)
			lowest, highest = min(lowest, v), max(highest, v)
		}
	}
	return highest - lowest
}

// median returns the median of at least one value. It sorts the values.
func median(values []float64) float64 {
	slices.SortFunc(values, cmp.Compare[float64])
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
