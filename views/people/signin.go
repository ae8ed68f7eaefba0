package people

import "quantix/views/kit"

// SignInPage is the sign-in form. Error is one sentence for all that can be wrong.
type SignInPage struct{ Name, Next, Error string }

// PasswordPage changes one's own password. Must: nothing else is possible before.
type PasswordPage struct {
	Name, Next string
	Must       bool
	EndTokens  bool // the API tokens' box is ticked
	Errors     kit.Errors
}
