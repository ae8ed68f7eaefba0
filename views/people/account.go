package people

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// AccountPage is the signed-in user's own account.
type AccountPage struct {
	User      fleet.User
	Projects  []kit.NamedLink
	Roles     map[string]fleet.Role // by project name
	SignedIn  time.Time             // start of the user's current sign-in session
	Idle, Max time.Duration         // idle timeout and maximum lifetime of a sign-in session
	Now       time.Time
}

func accountTabs(here string) []kit.Tab {
	return kit.LinkTabs(kit.Link{}, "", here, kit.Tab{Key: "account", Text: "Account", Href: "/account"}, kit.Tab{Key: "tokens", Text: "API tokens", Href: "/account/tokens"})
}

// durationText formats a duration in words: "30 minutes", "12 hours".
func durationText(d time.Duration) string {
	if d < time.Hour {
		return kit.CountText(int(d/time.Minute), "minute")
	}
	return kit.CountText(int(d/time.Hour), "hour")
}
