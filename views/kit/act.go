package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Act is one thing that a person can ask about an object: on its page, in its row and in its context menu alike.
type Act struct {
	Icon, Word string
	Label      string // said instead of the word, where that alone does not tell one button of the page from another
	Href       string // where it leads
	Dialog     bool   // Href is shown as a dialog
	Post       string // or the address of what is done at once
	Send       []Sent // with it
	Back       string // with Post: the page to come back to without scripts
	Into       string // with Post: the selector of what the answer replaces; empty: the page follows by itself
	Sure       string // with Post: what the browser asks before
	Danger     bool
	Apart      bool   // in a menu: a line stands before it, as before what is dangerous
	Why        string // set: why it is not possible now
	Sub        []Act  // in a menu: what its submenu offers; the act itself does nothing
}

// Sent is a value that an act sends.
type Sent struct{ Name, Value string }

// Needs disables the act where the actor lacks the right that it takes.
func (a Act) Needs(actor fleet.Actor, r policy.Permission) Act {
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

func (a Act) link() templ.Attributes {
	if a.Dialog {
		return templ.Attributes{"data-dialog": true}
	}
	return nil
}

func (a Act) form() templ.OrderedAttributes {
	swap := "none"
	if a.Into != "" {
		swap = "outerHTML"
	}
	out := Post(a.Post, a.Into, swap)
	if a.Sure != "" {
		out = append(out, templ.KeyValue[string, any]{Key: "hx-confirm", Value: a.Sure})
	}
	return out
}

func (a Act) button() templ.Attributes {
	if a.Label != "" {
		return templ.Attributes{"aria-label": a.Label}
	}
	return nil
}

// parted says whether a line stands before the act in a menu.
func (a Act) parted() bool { return a.Danger || a.Apart }
