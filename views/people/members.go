package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// MemberRow is a user's role in the project.
type MemberRow struct {
	UserID fleet.UserID
	Name   string
	Role   fleet.Role
}

// MemberForm gives a user a role in the project. Users are the users to choose from.
type MemberForm struct {
	User, Role string
	Users      kit.SelectChoices
	Errors     kit.Errors
}

// memberActions are the actions on a member's role.
func (p ProjectPage) memberActions(m MemberRow) []kit.ActionButton {
	change := func(role fleet.Role, icon, word string) kit.ActionButton {
		return kit.ActionButton{
			Icon: icon, Word: word, Post: p.path("members"), ReplaceTarget: "#members",
			PostValues: []kit.FormValue{{Name: "user", Value: string(m.UserID)}, {Name: "role", Value: string(role)}},
		}
	}
	var acts []kit.ActionButton
	for _, r := range fleet.ProjectRoles() {
		if r.Role != m.Role {
			acts = append(acts, change(r.Role, "user", "Change role to "+r.Label))
		}
	}
	remove := change(fleet.RoleNone, "trash-2", "Remove from the project")
	remove.Danger = true
	return append(acts, remove)
}
