package shell

import (
	"time"

	"quantix/internal/fleet"
)

// TaskDock is the list of recent tasks at the bottom of every page.
type TaskDock struct {
	All   bool // tasks of all users, not only one's own
	Tasks []fleet.Task
	Now   time.Time
}

// liveTrigger is the htmx trigger of the layout's live parts. On an error page, these parts are still empty, so they
// load immediately.
func (f PageLayout) liveTrigger(every string) string {
	if f.IsErrorPage {
		return "load, poke, every " + every
	}
	return "poke, every " + every
}

func (d TaskDock) refreshPath() string {
	if d.All {
		return "/tasks/recent?whose=all"
	}
	return "/tasks/recent"
}
