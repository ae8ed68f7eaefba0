package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Act is an action that a person can start on an object. The object's page, its list row and its context menu share it.
type Act struct {
	Icon, Word string
	Label      string      // accessible name where Word alone does not distinguish the page's buttons
	Href       string      // address of a link
	Dialog     bool        // Href opens as a dialog
	Post       string      // address of a POST request, instead of Href
	Send       []FormValue // values of the POST request
	Back       string      // with Post: the page to return to without JavaScript
	Into       string      // with Post: selector of the element to replace; empty: the live page updates itself
	Confirm    string      // with Post: the browser's confirmation text
	Danger     bool
	Separated  bool   // in a menu: a separator precedes the item, as before dangerous items
	Why        string // why the action is not possible now; empty: possible
	Sub        []Act  // in a menu: items of the submenu; the item itself starts nothing
}

// FormValue is a form value that an action's button sends with its POST request.
type FormValue struct{ Name, Value string }

// Needs disables the action if the actor lacks the permission r. An action that is disabled already keeps its reason.
func (a Act) Needs(actor fleet.Actor, r policy.Permission) Act {
	if a.Why == "" && !policy.May(actor, r, "") {
		a.Why = "You do not have permission to " + string(r) + ". Ask an administrator."
	}
	return a
}

// As sets Why to the reason that states give for the action: the object's state or the person's permissions forbid the
// action. Without such a reason, Why is empty. An action that states do not list keeps Why.
func (a Act) As(states []fleet.ActionState, action fleet.Action) Act {
	for _, s := range states {
		if s.Action == action {
			a.Why = s.Reason
		}
	}
	return a
}

// When disables the action for the reason why. It changes nothing if why is empty or the action is disabled already.
func (a Act) When(why string) Act {
	if a.Why == "" {
		a.Why = why
	}
	return a
}

func (a Act) linkAttrs() templ.Attributes {
	if a.Dialog {
		return templ.Attributes{"data-dialog": true}
	}
	return nil
}

func (a Act) formAttrs() templ.OrderedAttributes {
	swap := "none"
	if a.Into != "" {
		swap = "outerHTML"
	}
	out := Post(a.Post, a.Into, swap)
	if a.Confirm != "" {
		out = append(out, templ.KeyValue[string, any]{Key: "hx-confirm", Value: a.Confirm})
	}
	return out
}

func (a Act) buttonAttrs() templ.Attributes {
	if a.Label != "" {
		return templ.Attributes{"aria-label": a.Label}
	}
	return nil
}

// separated reports whether a separator precedes the action in a menu.
func (a Act) separated() bool { return a.Danger || a.Separated }
