package kit

import (
	"testing"

	"quantix/internal/fleet"
)

// TestIconSpinsInTransitionalPhasesOnly checks that every phase has a word, and that the icon spins in transitional
// phases only.
func TestIconSpinsInTransitionalPhasesOnly(t *testing.T) {
	t.Parallel()
	for _, p := range fleet.VMPhases {
		icon, spins := phaseIcon(p)
		moves := p.Severity() == fleet.SeverityWarn && p != fleet.PhasePaused && p != fleet.PhaseNeedsRestart
		if p.DisplayName() == "" || spins != moves || spins != (icon == "loader") {
			t.Errorf("%s: %q, %s, spins %v", p, p.DisplayName(), icon, spins)
		}
	}
	checkResults(t, "Tone", SeverityClass, map[fleet.Severity]string{fleet.SeverityIdle: "", fleet.SeverityOK: "ok", fleet.SeverityUnknown: "unknown"})
	checkResults(t, "ToneIcon", SeverityIcon, map[fleet.Severity]string{
		fleet.SeverityOK: "circle-check", fleet.SeverityWarn: "triangle-alert", fleet.SeverityBad: "triangle-alert", fleet.SeverityUnknown: "circle-question-mark", fleet.SeverityIdle: "circle-stop",
	})
}
