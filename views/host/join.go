package host

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// JoinPage is the page that joins hosts. Created is the token created by this request, with its secret. If Watched is
// set, the page waits until a host joins with that token.
type JoinPage struct {
	Created       *fleet.JoinToken
	RejoiningHost *fleet.HostView // known host that joins again; nil: a new host
	Watched       *fleet.JoinToken
	Host          *fleet.HostView // host that joined with the Watched token
	Tokens        []fleet.JoinToken
	Link          kit.Link
	Now           time.Time
}

// Title is the page's title.
func (p JoinPage) Title() string {
	switch {
	case p.RejoiningHost != nil:
		return "Join " + p.RejoiningHost.Name + " again"
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

// expiryText describes how long a token that expires at t is still valid: "expires in 14 min".
func expiryText(t, now time.Time) string {
	if left := t.Sub(now); left > 0 {
		return "expires in " + kit.ShortDuration(left)
	}
	return "expired"
}
