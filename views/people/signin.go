package people

import "quantix/views/kit"

// SignInPage is the sign-in form. Error is one generic sentence for every failed sign-in.
type SignInPage struct{ Name, Next, Error string }

// PasswordPage changes the signed-in user's own password. MustChange: the user has to change the password before
// anything else.
type PasswordPage struct {
	Name, Next string
	MustChange bool
	EndTokens  bool // the box "end API tokens" is ticked
	Errors     kit.Errors
}
