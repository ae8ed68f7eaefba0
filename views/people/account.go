package people

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// AccountPage is one's own account.
type AccountPage struct {
	User      fleet.User
	Projects  []kit.Named
	Roles     map[string]fleet.Role // by the project's name
	SignedIn  time.Time             // when this session began
	Idle, Max time.Duration         // how long a session may be unused, and last
	Now       time.Time
}

func accountTabs(here string) []kit.Tab {
	return kit.TabsAt(kit.Link{}, "", here, kit.Tab{Key: "account", Text: "Account", Href: "/account"}, kit.Tab{Key: "tokens", Text: "API tokens", Href: "/account/tokens"})
}

// longer writes a length of time in words: "30 minutes", "12 hours".
func longer(d time.Duration) string {
	if d < time.Hour {
		return kit.Count(int(d/time.Minute), "minute")
	}
	return kit.Count(int(d/time.Hour), "hour")
}
