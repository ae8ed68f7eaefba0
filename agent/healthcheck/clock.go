package healthcheck

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Limits of the difference to the portal's clock.
const (
	clockWarning  = 2 * time.Second
	clockCritical = time.Minute
)

// Clock returns the check of the host's clock. offset returns the difference to the portal's clock; false: it is not
// known.
func Clock(offset func() (time.Duration, bool)) Check { return clock(offset, kernelClockSynchronized) }

func clock(offset func() (time.Duration, bool), synchronized func() (bool, error)) Check {
	return Check{Name: "clock", Interval: time.Minute, Timeout: 5 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		var out []healthevent.Finding
		off, known := offset()
		switch seconds := off.Seconds(); {
		case !known:
			return nil, NotYet("The portal has not told its time since the agent's start.")
		case off >= clockCritical:
			out = append(out, finding("portal", "clock-offset", fleet.AlarmCritical, "The clock differs from the portal's by a minute or more. Set it with NTP.", "offsetSeconds", seconds))
		case off >= clockWarning:
			out = append(out, finding("portal", "clock-offset", fleet.AlarmWarning, "The clock differs from the portal's by 2 s or more. Set it with NTP.", "offsetSeconds", seconds))
		}
		switch ok, err := synchronized(); {
		case err != nil:
			return out, Partial{[]string{"kernel"}, "The kernel's clock state cannot be read: " + err.Error()}
		case !ok:
			out = append(out, finding("kernel", "clock-unsynchronized", fleet.AlarmWarning, "The kernel's clock is not synchronized. Enable chrony or systemd-timesyncd.", "", 0))
		}
		return out, nil
	}}
}
