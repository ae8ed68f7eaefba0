package people

import (
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// UserPage shows one user.
type UserPage struct {
	User     fleet.User
	Actor    fleet.Actor
	Projects []kit.NamedLink
	Roles    map[string]fleet.Role // by project name
	Form     UserForm
	Now      time.Time
}

func (p UserPage) path(below ...string) string { return views.UserPath(p.User.ID, below...) }

func (p UserPage) actions() []kit.ActionButton {
	can := policy.RestrictActions(p.Actor, "user", "", p.User.ActionsBy(p.Actor.UserID))
	return []kit.ActionButton{
		kit.ActionButton{Icon: "key-round", Word: "Reset the password", Href: p.path("password"), Dialog: true}.WithReasonFrom(can, fleet.ActPassword),
		kit.ActionButton{Icon: "trash-2", Word: "Delete user", Href: p.path("delete"), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActDelete),
	}
}
