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
	Projects []kit.Named
	Roles    map[string]fleet.Role // by project name
	Form     UserForm
	Now      time.Time
}

func (p UserPage) path(below ...string) string { return views.UserPath(p.User.ID, below...) }

func (p UserPage) acts() []kit.Act {
	can := policy.RestrictActions(p.Actor, "user", "", p.User.ActionsBy(p.Actor.UserID))
	return []kit.Act{
		kit.Act{Icon: "key-round", Word: "Reset the password", Href: p.path("password"), Dialog: true}.As(can, fleet.ActPassword),
		kit.Act{Icon: "trash-2", Word: "Delete user", Href: p.path("delete"), Dialog: true, Danger: true}.As(can, fleet.ActDelete),
	}
}
