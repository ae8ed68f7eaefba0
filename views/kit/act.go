package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Act is one thing that a person can ask about an object: on its page, in its row and in its context menu alike.
type Act struct {
	Icon, Word string
	Href       string // where it leads
	Dialog     bool   // Href is shown as a dialog
	Post       string // or the address of what is done at once
	Back       string // with Post: the page to come back to without scripts
	Danger     bool
	Why        string // set: why it is not possible now
}

// Needs disables the act where the actor lacks the right that it takes.
func (a Act) Needs(actor fleet.Actor, r policy.Right) Act {
	if a.Why == "" && !policy.May(actor, r, "") {
		a.Why = "You have no right to " + string(r) + ". Ask an administrator."
	}
	return a
}

// As is the act as the object and the person's rights allow it.
func (a Act) As(states []fleet.ActionState, action fleet.Action) Act {
	for _, s := range states {
		if s.Action == action {
			a.Why = s.Reason
		}
	}
	return a
}

// When disables the act for a reason of its own; an empty reason leaves it as it is.
func (a Act) When(why string) Act {
	if a.Why == "" {
		a.Why = why
	}
	return a
}

func (a Act) dialog() templ.Attributes {
	if a.Dialog {
		return templ.Attributes{"data-dialog": true}
	}
	return nil
}
