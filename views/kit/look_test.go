package kit

import (
	"testing"

	"quantix/internal/fleet"
)

// Every phase has a look: colour, icon and word, and none falls through to another's.
func TestEveryPhaseHasALook(t *testing.T) {
	t.Parallel()
	for _, p := range fleet.VMPhases {
		icon, spins := phaseIcon(p)
		moves := p.Tone() == fleet.ToneWarn && p != fleet.PhasePaused && p != fleet.PhaseNeedsRestart
		if p.Word() == "" || spins != moves || spins != (icon == "loader") {
			t.Errorf("%s: %q, %s, spins %v", p, p.Word(), icon, spins)
		}
	}
	same(t, "Tone", Tone, map[fleet.Tone]string{fleet.ToneIdle: "", fleet.ToneOK: "ok", fleet.ToneUnknown: "unknown"})
	same(t, "ToneIcon", ToneIcon, map[fleet.Tone]string{
		fleet.ToneOK: "circle-check", fleet.ToneWarn: "triangle-alert", fleet.ToneBad: "triangle-alert", fleet.ToneUnknown: "circle-question-mark", fleet.ToneIdle: "circle-stop",
	})
}
