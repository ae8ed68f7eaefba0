package kit

import "quantix/internal/fleet"

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
