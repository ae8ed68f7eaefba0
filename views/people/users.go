// Package people shows who may do what: users, projects and their members, sign-in, one's own account and its tokens.
package people

import (
	"time"

	"quantix/internal/fleet"
)

// UsersPage is the list of people who can sign in.
type UsersPage struct {
	Users []fleet.User
	Now   time.Time
}
