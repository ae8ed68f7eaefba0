package metrics

import "time"

// tier is one resolution of stored points. Its chunks hold the points of one period.
type tier struct {
	number int16
	step   time.Duration
	begin  func(time.Time) time.Time // the start of the period with that time
	end    func(time.Time) time.Time // the end of the period with that start
	// search is the age of the oldest period that is still summarized: portals may have been down for a while.
	search time.Duration
}

// points returns the number of points of the period with that start.
func (t tier) points(start time.Time) int { return int(t.end(start).Sub(start) / t.step) }

// tiers are the resolutions from the finest to the coarsest. The periods of one tier lie within those of the next one.
var tiers = []tier{
	{1, time.Minute, func(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }, func(t time.Time) time.Time { return t.Add(time.Hour) }, 48 * time.Hour},
	{2, 10 * time.Minute, func(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }, func(t time.Time) time.Time { return t.Add(24 * time.Hour) }, 5 * 24 * time.Hour},
	{3, 2 * time.Hour, func(t time.Time) time.Time {
		return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	}, func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }, 62 * 24 * time.Hour},
}

// Retention is how long the points of each tier are kept.
type Retention struct{ Samples, Minutes, TenMinutes, TwoHours time.Duration }

// DefaultRetention is 2 hours of samples, 2 days of 1-minute points, 5 weeks of 10-minute points, and 2 years of 2-hour
// points.
var DefaultRetention = Retention{2 * time.Hour, 48 * time.Hour, 35 * 24 * time.Hour, 730 * 24 * time.Hour}

// of returns how long a tier's points are kept; number 0: the samples.
func (r Retention) of(number int16) time.Duration {
	return [...]time.Duration{r.Samples, r.Minutes, r.TenMinutes, r.TwoHours}[number]
}
