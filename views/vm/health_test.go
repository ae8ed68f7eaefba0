package vm

import (
	"testing"

	"quantix/internal/fleet"
)

// TestStaleHealthCheckResultsHidden checks that the page shows no results of an offline host, and no results from
// before the check was changed.
func TestStaleHealthCheckResultsHidden(t *testing.T) {
	t.Parallel()
	check := fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 22}
	other := fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 23}
	for name, c := range map[string]struct {
		phase fleet.Phase
		power fleet.Power
		had   fleet.HealthCheck
		state fleet.Health
		word  string
		said  string
	}{
		"fails":         {fleet.PhaseRunning, fleet.Running, check, fleet.HealthFailing, "Failing", "refused"},
		"healthy":       {fleet.PhaseRunning, fleet.Running, check, fleet.Healthy, "Healthy", "refused"},
		"host offline":  {fleet.PhaseUnknown, fleet.Running, check, fleet.HealthFailing, "Unknown", "The host is offline."},
		"powered off":   {fleet.PhaseStopped, fleet.Stopped, check, fleet.HealthFailing, "Unknown", "Checks run while the guest runs."},
		"another check": {fleet.PhaseRunning, fleet.Running, other, fleet.HealthFailing, "Unknown", "The host has not started this check yet."},
		"newer agent":   {fleet.PhaseRunning, fleet.Running, check, "dizzy", "Unknown", "refused"},
	} {
		p := Page{VM: fleet.VMView{Phase: c.phase, VM: fleet.VM{
			Spec: fleet.VMSpec{Health: []fleet.HealthCheck{check}}, Status: &fleet.VMStatus{Power: c.power, Health: []fleet.HealthState{{Check: c.had, State: c.state, Answer: "refused"}}},
		}}}
		if all := p.healthCheckRows(); len(all) != 1 || all[0].word != c.word || all[0].Answer != c.said {
			t.Errorf("%s: %+v", name, all)
		}
	}
	for want, h := range map[string]fleet.HealthState{
		"Report": {}, "Reset": {Check: fleet.HealthCheck{Action: fleet.HealthReset}}, "Restart, 2 of 5 times": {Check: fleet.HealthCheck{Action: fleet.HealthRestart}, Actions: 2},
		"Reset, given up after 5": {Check: fleet.HealthCheck{Action: fleet.HealthReset}, Actions: 5},
	} {
		if got := (healthCheckRow{HealthState: h}).reactionText(); got != want {
			t.Errorf("the reaction is %q, want %q", got, want)
		}
	}
}
