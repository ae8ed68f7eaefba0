package kit

import "quantix/internal/fleet"

// SeverityClass is the CSS class of a severity; idle has none.
func SeverityClass(t fleet.Severity) string {
	if t == fleet.SeverityIdle {
		return ""
	}
	return string(t)
}

// phaseIcon is the icon of a VM's phase. spin is true for transitional phases.
func phaseIcon(p fleet.Phase) (name string, spin bool) {
	switch p {
	case fleet.PhaseRunning, fleet.PhaseNeedsRestart:
		return "circle-play", false
	case fleet.PhasePaused:
		return "circle-pause", false
	case fleet.PhaseStopped:
		return "circle-stop", false
	case fleet.PhaseFailed, fleet.PhaseCrashed, fleet.PhaseMissing, fleet.PhaseLost:
		return "triangle-alert", false
	case fleet.PhaseUnknown:
		return "circle-question-mark", false
	}
	return "loader", true
}

// SeverityIcon is the icon of a severity.
func SeverityIcon(t fleet.Severity) string {
	switch t {
	case fleet.SeverityOK:
		return "circle-check"
	case fleet.SeverityWarn, fleet.SeverityBad:
		return "triangle-alert"
	case fleet.SeverityUnknown:
		return "circle-question-mark"
	}
	return "circle-stop"
}
