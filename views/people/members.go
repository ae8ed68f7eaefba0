package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// MemberRow is a person's role in the project.
type MemberRow struct {
	UserID fleet.UserID
	Name   string
	Role   fleet.Role
}

// MemberForm gives a person a role in the project. Users are those who may be chosen.
type MemberForm struct {
	User, Role string
	Users      kit.Choices
	Errors     kit.Errors
}
