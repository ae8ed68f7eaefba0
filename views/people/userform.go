package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// UserForm is a user as an administrator typed it. ID empty: a new one.
type UserForm struct {
	ID         fleet.UserID
	Name, Role string
	Disabled   bool
	Errors     kit.Errors
	Password   string // the one-time password of the user that was made by this very request
}
