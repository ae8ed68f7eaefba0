package task

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// argumentsText describes the program's arguments by their number, since the portal does not store them.
func argumentsText(r fleet.GuestRun) string {
	if r.Args == 0 {
		return ""
	}
	return "with " + kit.CountText(r.Args, "argument") + ", not stored"
}

// programExitAppearance is the icon, CSS class and text for the exit of a program.
func programExitAppearance(o fleet.GuestOutput) (icon, tone, word string) {
	switch {
	case o.Signal != 0:
		return "circle-x", "bad", "Ended by signal " + strconv.Itoa(o.Signal)
	case o.ExitCode != 0:
		return "circle-x", "bad", "Exit code " + strconv.Itoa(o.ExitCode)
	}
	return "circle-check", "ok", "Exit code 0"
}
