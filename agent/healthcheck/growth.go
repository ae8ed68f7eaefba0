package healthcheck

import "time"

// growth computes how much counters have grown within a period. The zero value is not usable.
type growth struct {
	period  time.Duration
	samples map[string][]counterSample
}

type counterSample struct {
	at    time.Time
	value float64
}

func newGrowth(period time.Duration) *growth {
	return &growth{period, map[string][]counterSample{}}
}

// add adds a reading of a counter and returns its growth within the period. The first reading has no growth, because
// nobody knows when the counter grew. A counter that has become smaller was reset.
func (g *growth) add(now time.Time, name string, value float64) float64 {
	s := g.samples[name]
	if n := len(s); n > 0 && value < s[n-1].value {
		s = []counterSample{{now, 0}}
	}
	s = append(s, counterSample{now, value})
	for len(s) > 2 && now.Sub(s[1].at) >= g.period { // the first sample is the newest one before the period
		s = s[1:]
	}
	g.samples[name] = s
	return value - s[0].value
}

// keepOnly forgets counters that no longer exist.
func (g *growth) keepOnly(names map[string]bool) {
	for name := range g.samples {
		if !names[name] {
			delete(g.samples, name)
		}
	}
}
