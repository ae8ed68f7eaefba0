package shell

import (
	"time"

	"quantix/internal/fleet"
)

// Dock is the list of recent tasks at the bottom of every page.
type Dock struct {
	All   bool // of all people, not only one's own
	Tasks []fleet.Task
	Now   time.Time
}

// trigger says when the frame's live parts ask for themselves: a quiet frame was sent without them, so at once.
func (f Frame) trigger(every string) string {
	if f.Quiet {
		return "load, poke, every " + every
	}
	return "poke, every " + every
}

func (d Dock) address() string {
	if d.All {
		return "/tasks/recent?whose=all"
	}
	return "/tasks/recent"
}
