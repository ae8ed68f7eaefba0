package people

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// ProjectsPage is the list of projects that the actor may see.
type ProjectsPage struct {
	Actor    fleet.Actor
	Projects []fleet.Project
	Link     kit.Link
	Pager    kit.Pager
}

func newProjectAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New project", Href: "/projects/new", Dialog: true}.RequirePermission(a, policy.Manage)
}
