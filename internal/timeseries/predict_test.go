package timeseries

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"quantix/internal/usage"
)

// levels returns the points of a level, one an hour.
func levels(days int, at func(day float64) float64) []Point {
	out := make([]Point, days*24)
	for i := range out {
		v := at(float64(i) / 24)
		out[i] = Point{v, v, v}
	}
	return out
}

func TestPredictFull(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // noise of a test
	noise := func(size float64) float64 { return (random.Float64() - 0.5) * 2 * size }
	for name, c := range map[string]struct {
		used     []Point
		min, max float64 // days; max 0: no prediction
	}{
		"steady growth":              {levels(30, func(d float64) float64 { return 300 + 10*d }), 38, 42},
		"growth with noise":          {levels(30, func(d float64) float64 { return 300 + 10*d + noise(20) }), 34, 46},
		"growth with a daily cycle":  {levels(30, func(d float64) float64 { return 300 + 10*d + 40*math.Sin(2*math.Pi*d) }), 34, 46},
		"growth at night only":       {levels(30, func(d float64) float64 { return 300 + 10*math.Floor(d) }), 38, 43},
		"deletion in the time":       {levels(30, func(d float64) float64 { return 500 + 10*d - 400*math.Floor(d/20) }), 57, 63},
		"deletion yesterday":         {levels(30, func(d float64) float64 { return 500 + 10*d - 400*math.Floor(d/29) }), 57, 63},
		"large copy in the time":     {levels(30, func(d float64) float64 { return 200 + 10*d + 300*math.Floor(d/20) }), 18, 22},
		"three days":                 {levels(4, func(d float64) float64 { return 900 + 10*d }), 5, 7},
		"full":                       {levels(10, func(d float64) float64 { return min(1000, 950+10*d) }), 0, 0.001},
		"days without values":        {gap(levels(30, func(d float64) float64 { return 300 + 10*d }), 10, 14), 38, 42},
		"shrinking":                  {levels(30, func(d float64) float64 { return 900 - 10*d }), 0, 0},
		"constant":                   {levels(30, func(float64) float64 { return 900 }), 0, 0},
		"only noise":                 {levels(30, func(float64) float64 { return 900 + noise(50) }), 0, 0},
		"rotated every week":         {levels(35, func(d float64) float64 { return 800 + 20*math.Mod(d, 7) }), 0, 0},
		"one copy":                   {levels(30, func(d float64) float64 { return 200 + 300*math.Floor(d/20) }), 0, 0},
		"two days only":              {levels(2, func(d float64) float64 { return 900 + 10*d }), 0, 0},
		"no value":                   {gap(levels(30, func(d float64) float64 { return d }), 0, 30), 0, 0},
		"no value of the newest day": {gap(levels(30, func(d float64) float64 { return 300 + 10*d }), 29, 30), 0, 0},
		"mostly without values":      {gap(levels(30, func(d float64) float64 { return 300 + 10*d }), 2, 27), 0, 0},
		"in more than a year":        {levels(60, func(d float64) float64 { return 300 + d }), 0, 0},
		"further than is known":      {levels(4, func(d float64) float64 { return 300 + 10*d }), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, growth, _ := PredictFull(c.used, time.Hour, 1000)
			ok := growth == usage.GrowsFull
			if days := after.Hours() / 24; ok != (c.max > 0) || ok && (days < c.min || days > c.max) {
				t.Errorf("predicted %s (%.1f days), want %v to %v days", growth, days, c.min, c.max)
			}
		})
	}
}

// gap removes the values of some days.
func gap(points []Point, from, to int) []Point {
	for i := from * 24; i < to*24; i++ {
		points[i] = missingPoint()
	}
	return points
}

func TestPredictFullRefusesUnknownCapacity(t *testing.T) {
	t.Parallel()
	used := levels(30, func(d float64) float64 { return 300 + 10*d })
	for _, capacity := range []float64{0, -1, math.NaN()} {
		if _, growth, _ := PredictFull(used, time.Hour, capacity); growth == usage.GrowsFull {
			t.Errorf("predicted with a capacity of %v", capacity)
		}
	}
}

func TestGrowthSaysWhyAPoolIsNotPredictedFull(t *testing.T) {
	t.Parallel()
	growing := func(d float64) float64 { return 300 + 10*d }
	for name, c := range map[string]struct {
		used []Point
		want usage.Growth
		days int
	}{
		"constant":                   {levels(30, func(float64) float64 { return 900 }), usage.GrowsNot, 29},
		"two days only":              {levels(2, growing), usage.GrowsFew, 1},
		"no value":                   {gap(levels(30, growing), 0, 30), usage.GrowsFew, 0},
		"no value of the newest day": {gap(levels(30, growing), 29, 30), usage.GrowsStale, 28},
		"in more than a year":        {levels(60, func(d float64) float64 { return 300 + d }), usage.GrowsSlowly, 59},
		"full soon":                  {levels(30, growing), usage.GrowsFull, 29},
	} {
		if _, got, days := PredictFull(c.used, time.Hour, 1000); got != c.want || days != c.days {
			t.Errorf("%s: %s of %d days, want %s of %d", name, got, days, c.want, c.days)
		}
	}
}
