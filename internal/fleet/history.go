package fleet

import (
	"strconv"
	"strings"
	"time"
)

// Resolution of the 24-hour history: quarters of an hour.
const (
	Quarter     = 15 * time.Minute
	DayQuarters = 96
)

// StatusHistory is the 24-hour history of a status, as runs of equal severity, oldest first. Each quarter of an hour has
// its worst severity. A quarter without data has an empty severity.
type StatusHistory []DayPart

// DayPart is a run of quarters with the same severity.
type DayPart struct {
	Severity Severity `json:"severity"` // empty: no data
	Quarters int      `json:"quarters"`
}

var dayWords = []struct {
	severity Severity
	word     string
}{{SeverityOK, "OK"}, {SeverityWarn, "warning"}, {SeverityBad, "failed"}, {SeverityUnknown, "unknown"}, {"", "no data"}}

// Text returns the history as text, for screen readers: "In the last 24 h: OK 23 h 15 min, failed 45 min".
func (d StatusHistory) Text() string {
	var parts []string
	for _, w := range dayWords {
		n := 0
		for _, p := range d {
			if p.Severity == w.severity {
				n += p.Quarters
			}
		}
		if n > 0 {
			parts = append(parts, w.word+" "+quartersText(n))
		}
	}
	return "In the last 24 h: " + strings.Join(parts, ", ")
}

func quartersText(n int) string {
	hours, minutes := n/4, n%4*15
	switch {
	case hours == 0:
		return strconv.Itoa(minutes) + " min"
	case minutes == 0:
		return strconv.Itoa(hours) + " h"
	}
	return strconv.Itoa(hours) + " h " + strconv.Itoa(minutes) + " min"
}
