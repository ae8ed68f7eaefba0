package fleet

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// How a day is told: in quarters of an hour.
const (
	Quarter     = 15 * time.Minute
	DayQuarters = 96
)

// Day is how a cell of a matrix was in the last 24 hours: one part after the other, the newest last. Each quarter of an hour has the worst
// tone that there was in it. Quarters of which nothing is known, for the cell was not there, have none.
type Day []DayPart

// DayPart is how many quarters one after the other had a tone.
type DayPart struct {
	Severity Severity `json:"tone"` // empty: nothing is known
	Quarters int      `json:"quarters"`
}

// Turn is a quarter in which a cell's tone changed.
type Turn struct {
	Quarter     time.Time
	Worst, Last Severity // of it, and at its end
}

// OfflinePeriod is a time in which nothing was known of a host.
type OfflinePeriod struct{ Since, Until time.Time }

// turned are the tones that a cell can have, the worst last; their places are what the database knows them by.
var turned = []Severity{SeverityOK, SeverityWarn, SeverityUnknown, SeverityBad}

// SeverityOf is the tone of that rank; empty for one that there is not.
func SeverityOf(rank int) Severity {
	if rank < 0 || rank >= len(turned) {
		return ""
	}
	return turned[rank]
}

// DaySince is where the day that ends now begins.
func DaySince(now time.Time) time.Time {
	return now.Truncate(Quarter).Add(-(DayQuarters - 1) * Quarter)
}

// DayOf is the day that ends now. Turns are in the order of time, from the last one before the day on.
func DayOf(now time.Time, turns []Turn, silences []OfflinePeriod) Day {
	var day Day
	var held Severity
	for n, at := 0, DaySince(now); n < DayQuarters; n, at = n+1, at.Add(Quarter) {
		end := at.Add(Quarter)
		tone := held
		for len(turns) > 0 && turns[0].Quarter.Before(end) {
			if !turns[0].Quarter.Before(at) {
				tone = worse(tone, turns[0].Worst)
			} else {
				tone = turns[0].Last
			}
			held, turns = turns[0].Last, turns[1:]
		}
		if tone != "" && slices.ContainsFunc(silences, func(s OfflinePeriod) bool { return s.Since.Before(end) && s.Until.After(at) }) {
			tone = worse(tone, SeverityUnknown)
		}
		if last := len(day) - 1; last >= 0 && day[last].Severity == tone {
			day[last].Quarters++
		} else {
			day = append(day, DayPart{tone, 1})
		}
	}
	if len(day) == 1 && day[0].Severity == "" {
		return nil
	}
	return day
}

func worse(a, b Severity) Severity {
	if slices.Index(turned, a) > slices.Index(turned, b) {
		return a
	}
	return b
}

var dayWords = []struct {
	tone Severity
	word string
}{{SeverityOK, "well"}, {SeverityWarn, "wanting a look"}, {SeverityBad, "failed"}, {SeverityUnknown, "unknown"}, {"", "not there"}}

// Words are the day in words, for those who do not see it: "In the last 24 h: well 23 h 15 min, failed 45 min".
func (d Day) Words() string {
	var parts []string
	for _, w := range dayWords {
		n := 0
		for _, p := range d {
			if p.Severity == w.tone {
				n += p.Quarters
			}
		}
		if n > 0 {
			parts = append(parts, w.word+" "+quartersWord(n))
		}
	}
	return "In the last 24 h: " + strings.Join(parts, ", ")
}

func quartersWord(n int) string {
	hours, minutes := n/4, n%4*15
	switch {
	case hours == 0:
		return strconv.Itoa(minutes) + " min"
	case minutes == 0:
		return strconv.Itoa(hours) + " h"
	}
	return strconv.Itoa(hours) + " h " + strconv.Itoa(minutes) + " min"
}
