package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// PhaseChip renders a VM's phase: icon, word and colour.
func PhaseChip(p fleet.Phase) templ.Component {
	return phaseChipCache.get(p, func() templ.Component { return phaseChip(p) })
}
