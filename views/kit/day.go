package kit

import (
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

type dayBarSegment struct {
	fleet.DayPart
	startQuarterHour int // number of quarter hours before the part
}

// dayBarSegments are the parts of the day with data, which the bar shows.
func dayBarSegments(d fleet.StatusHistory) (out []dayBarSegment) {
	at := 0
	for _, p := range d {
		if p.Severity != "" {
			out = append(out, dayBarSegment{p, at})
		}
		at += p.Quarters
	}
	return out
}

// topOffset is the segment's offset from the top of the bar. Worse severities are drawn higher, so that the bar is
// readable without colours.
func (p dayBarSegment) topOffset() string {
	switch p.Severity {
	case fleet.SeverityBad:
		return "0"
	case fleet.SeverityWarn:
		return "0.25"
	case fleet.SeverityOK:
		return "0.5"
	}
	return "0.75"
}

var dayWords = []struct {
	severity fleet.Severity
	word     string
}{{fleet.SeverityOK, "OK"}, {fleet.SeverityWarn, "warning"}, {fleet.SeverityBad, "failed"}, {fleet.SeverityUnknown, "unknown"}, {"", "no data"}}

// statusHistoryText returns the history as text, for screen readers: "In the last 24 h: OK 23 h 15 min, failed 45 min".
func statusHistoryText(d fleet.StatusHistory) string {
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
