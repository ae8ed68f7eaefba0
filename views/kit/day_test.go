package kit

import (
	"testing"

	"quantix/internal/fleet"
)

func TestStatusHistoryTextNamesDurations(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]fleet.StatusHistory{
		"In the last 24 h: OK 24 h": {{Severity: fleet.SeverityOK, Quarters: 96}},
		"In the last 24 h: OK 45 min, no data 23 h 15 min": {
			{Severity: "", Quarters: 93}, {Severity: fleet.SeverityOK, Quarters: 3},
		},
		"In the last 24 h: OK 21 h 15 min, warning 1 h 30 min, failed 1 h 15 min": {
			{Severity: fleet.SeverityOK, Quarters: 85}, {Severity: fleet.SeverityBad, Quarters: 5}, {Severity: fleet.SeverityWarn, Quarters: 6},
		},
	} {
		if got := statusHistoryText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
