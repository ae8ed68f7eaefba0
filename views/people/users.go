// Package people renders users and permissions: users, projects and their members, sign-in, the user's own account and
// API tokens.
package people

import (
	"time"

	"quantix/internal/fleet"
)

// UsersPage is the list of users.
type UsersPage struct {
	Users []fleet.User
	Now   time.Time
}
