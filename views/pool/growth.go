package pool

import (
	"fmt"
	"math"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/usage"
	"quantix/views/kit"
)

// Limits of a shown prediction: those of the prediction itself.
const (
	maxPredictedDays = 365
	predictedAhead   = 12 // times the days of the values
)

// growthText says when the pool will be full: "Full in about 23 days at the growth of the last 30 days."
func growthText(g *usage.PoolGrowth, now time.Time) string {
	if g == nil {
		return "Not predicted yet. The first prediction follows within some minutes, if the pool is on an online host."
	}
	last := "the last " + kit.CountText(max(g.Days, 1), "day")
	var text string
	switch days := int(math.Round(g.FullAt.Sub(now).Hours() / 24)); g.Growth {
	case usage.GrowsFull:
		switch {
		case days < 1:
			text = "Full within a day"
		case days == 1:
			text = "Full in about a day"
		default:
			text = fmt.Sprintf("Full in about %d days", days)
		}
		text += " at the growth of " + last
	case usage.GrowsSlowly:
		text = "Growing, but not full within " + kit.CountText(min(maxPredictedDays, predictedAhead*max(g.Days, 1)), "day") + " at the growth of " + last
	case usage.GrowsNot:
		text = "Not growing in " + last
	case usage.GrowsStale:
		text = "Not predicted: no values of the last 12 hours"
	default:
		text = "Not enough data to predict when it is full (needs 3 days)"
	}
	if g.HostName != "" {
		if g.Growth == usage.GrowsFull {
			return fmt.Sprintf("%s, first on %s of %s.", text, g.HostName, kit.CountText(g.Hosts, "host"))
		}
		return fmt.Sprintf("%s, on each of %s.", text, kit.CountText(g.Hosts, "host"))
	}
	return text + "."
}

// growthSeverity is the tone of the prediction: a warning within 30 days.
func growthSeverity(g *usage.PoolGrowth, now time.Time) string {
	if g != nil && g.Fresh && g.Growth == usage.GrowsFull && g.FullAt.Sub(now) < 30*24*time.Hour {
		return kit.SeverityClass(fleet.SeverityWarn)
	}
	return ""
}

// chartHostsNote says that the charts do not show all hosts; empty: they do.
func (p Page) chartHostsNote() string {
	if all := p.Pool.Health.Hosts; !p.Pool.Spec.Shared && all > fleet.HostStatusesListed {
		return fmt.Sprintf("The charts show the first %d of %d hosts: those that need attention first, then by name. The page of a host has its own charts.", fleet.HostStatusesListed, all)
	}
	return ""
}
