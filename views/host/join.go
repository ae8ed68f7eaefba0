package host

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// JoinPage adds hosts. Made is the token that was made by this very request, with its secret; Watched the one whose use the
// page waits for, as it is now.
type JoinPage struct {
	Made    *fleet.JoinToken
	Again   *fleet.HostView // the host that is to join again; nil: a new one
	Watched *fleet.JoinToken
	Host    *fleet.HostView // that has joined with Watched
	Tokens  []fleet.JoinToken
	Link    kit.Link
	Now     time.Time
}

// Title is what the page is for.
func (p JoinPage) Title() string {
	switch {
	case p.Again != nil:
		return "Join " + p.Again.Name + " again"
	case p.Watched != nil && p.Watched.HostID != "":
		return "Join a host again"
	}
	return "Add host"
}

// joinTokenState is "waiting", "used", "revoked" or "expired".
func joinTokenState(t fleet.JoinToken, now time.Time) string {
	switch {
	case t.UsedAt != nil:
		return "used"
	case t.RevokedAt != nil:
		return "revoked"
	case !now.Before(t.ExpiresAt):
		return "expired"
	}
	return "waiting"
}

// untilWords is how long something still holds: "expires in 14 min".
func untilWords(t, now time.Time) string {
	if left := t.Sub(now); left > 0 {
		return "expires in " + kit.Short(left)
	}
	return "expired"
}
