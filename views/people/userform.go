package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// UserForm is the form of a user, as typed by an administrator. An empty ID is a new user.
type UserForm struct {
	ID         fleet.UserID
	Name, Role string
	Disabled   bool
	Errors     kit.Errors
	Password   string // one-time password of the user created by this request
}
