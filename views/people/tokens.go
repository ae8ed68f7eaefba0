package people

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// TokensPage lists the signed-in user's own API tokens. Created is the token created by this request, with its
// secret.
type TokensPage struct {
	Name    string // user name
	Tokens  []fleet.Token
	Created *fleet.Token
	Form    TokenForm
	Now     time.Time
}

// TokenForm is the form of a new token, as typed. Life is the lifetime in hours; "0" means no expiry.
type TokenForm struct {
	Name, Life string
	Errors     kit.Errors
}

// TokenLifetimes are the lifetimes to choose from, in hours.
var TokenLifetimes = []kit.Option{
	{Value: "24", Text: "1 day"}, {Value: "168", Text: "7 days"}, {Value: "720", Text: "30 days"}, {Value: "2160", Text: "90 days"}, {Value: "8760", Text: "1 year"}, {Value: "0", Text: "No expiry"},
}
