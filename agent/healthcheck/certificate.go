package healthcheck

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Certificate returns the check of the agent's certificate. The agent renews it after about two thirds of its lifetime,
// so little time left means that renewals fail.
func Certificate(validity func() (from, until time.Time), now func() time.Time) Check {
	return Check{Name: "certificate", Interval: 10 * time.Minute, Timeout: 5 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		from, until := validity()
		left, whole := until.Sub(now()), until.Sub(from)
		days := left.Hours() / 24
		switch {
		case left <= 0:
			return []healthevent.Finding{finding("", "certificate-expired", fleet.AlarmCritical, "The agent's certificate has expired. Join the host again if it does not renew by itself.", "days", days)}, nil
		case left < whole/12:
			return []healthevent.Finding{finding("", "certificate-ends", fleet.AlarmCritical, "The agent's certificate ends soon and was not renewed. See the agent's log.", "days", days)}, nil
		case left < whole/5:
			return []healthevent.Finding{finding("", "certificate-ends", fleet.AlarmWarning, "The agent's certificate was not renewed in time. The agent keeps trying.", "days", days)}, nil
		}
		return nil, nil
	}}
}
