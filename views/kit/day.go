package kit

import "quantix/internal/fleet"

type dayPart struct {
	fleet.DayPart
	at int // how many quarters are before it
}

// dayParts are those that are drawn: where nothing is known there is nothing.
func dayParts(d fleet.Day) (out []dayPart) {
	at := 0
	for _, p := range d {
		if p.Severity != "" {
			out = append(out, dayPart{p, at})
		}
		at += p.Quarters
	}
	return out
}

// top is where the part begins from above: the higher it stands, the worse it is, for who sees no colours.
func (p dayPart) top() string {
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
