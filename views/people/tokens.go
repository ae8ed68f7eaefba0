package people

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// TokensPage is one's own API tokens. Made is the one that was made by this very request, with its secret.
type TokensPage struct {
	Name   string // of the person
	Tokens []fleet.Token
	Made   *fleet.Token
	Form   TokenForm
	Now    time.Time
}

// TokenForm is a new token as a person typed it; Life is hours, or "0" for ever.
type TokenForm struct {
	Name, Life string
	Errors     kit.Errors
}

// TokenLives are the lifetimes to choose from, in hours.
var TokenLives = []kit.Option{
	{Value: "24", Text: "1 day"}, {Value: "168", Text: "7 days"}, {Value: "720", Text: "30 days"}, {Value: "2160", Text: "90 days"}, {Value: "8760", Text: "1 year"}, {Value: "0", Text: "Without end"},
}
