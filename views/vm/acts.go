package vm

import (
	"quantix/internal/fleet"
)

var actionIcons = map[fleet.Action]string{
	fleet.ActStart: "play", fleet.ActShutdown: "power", fleet.ActStop: "power-off", fleet.ActReboot: "rotate-cw", fleet.ActReset: "zap",
	fleet.ActPause: "pause", fleet.ActResume: "play", fleet.ActConsole: "monitor", fleet.ActEdit: "pencil", fleet.ActDelete: "trash-2",
}

// sure is what the browser asks before an action that loses what the guest has not written; empty: nothing.
func sure(a fleet.Action, name string) string {
	if !a.Job().Is().Forces {
		return ""
	}
	return a.Word() + " " + name + "? The guest is not asked: what it has not written is lost."
}
