// Package people renders identities and permissions: users, projects and their members, sign-in, one's own account and
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
