package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ActionButton is an action that a person can start on an object. The object's page, its list row and its context menu
// share it.
type ActionButton struct {
	Icon, Word    string
	Label         string      // accessible name where Word alone does not distinguish the page's buttons
	Href          string      // address of a link
	Dialog        bool        // Href opens as a dialog
	Post          string      // address of a POST request, instead of Href
	PostValues    []FormValue // values of the POST request
	Back          string      // with Post: the page to return to without JavaScript
	ReplaceTarget string      // with Post: selector of the element to replace; empty: the live page updates itself
	Confirm       string      // with Post: the confirmation text
	ConfirmTone   string      // tone of the confirming button: "primary"; empty: "danger"
	Danger        bool
	Separated     bool           // in a menu: a separator precedes the item, as before dangerous items
	Why           string         // why the action is not possible now; empty: possible
	Absent        bool           // not rendered: no role of the person permits the action
	Submenu       []ActionButton // in a menu: items of the submenu; the item itself starts nothing
}

// FormValue is a form value that an action's button sends with its POST request.
type FormValue struct{ Name, Value string }

// RequirePermission disables the action if the actor lacks the permission r, or removes it: see policy.OmitsAction. An
// action that is disabled already keeps its reason.
func (a ActionButton) RequirePermission(actor fleet.Actor, r policy.Permission) ActionButton {
	return a.RequirePermissionIn(actor, r, "")
}

// RequirePermissionIn is RequirePermission for an action on an object of the project.
func (a ActionButton) RequirePermissionIn(actor fleet.Actor, r policy.Permission, project fleet.ProjectID) ActionButton {
	if policy.May(actor, r, project) {
		return a
	}
	a.Absent = a.Absent || policy.OmitsAction(actor, r, project)
	return a.DisableFor("You do not have permission to " + string(r) + ". Ask an administrator.")
}

// WithReasonFrom sets Why to the reason that states give against the action: the object's state or the person's
// permissions. If states allow the action, Why becomes empty. If states do not contain the action, Why is unchanged.
func (a ActionButton) WithReasonFrom(states []fleet.ActionState, action fleet.Action) ActionButton {
	for _, s := range states {
		if s.Action == action {
			a.Why, a.Absent = s.Reason, a.Absent || s.Absent
		}
	}
	return a
}

// DisableFrom works like WithReasonFrom, but an action that is already disabled keeps its reason.
func (a ActionButton) DisableFrom(states []fleet.ActionState, action fleet.Action) ActionButton {
	s := ActionButton{}.WithReasonFrom(states, action)
	a.Absent = a.Absent || s.Absent
	return a.DisableFor(s.Why)
}

// DisableFor disables the action with the given reason. It changes nothing if the reason is empty or the action is
// already disabled.
func (a ActionButton) DisableFor(reason string) ActionButton {
	if a.Why == "" {
		a.Why = reason
	}
	return a
}

// visible returns the actions that are rendered: without absent ones, and without submenus that have no visible item.
func visible(acts []ActionButton) []ActionButton {
	out := make([]ActionButton, 0, len(acts))
	for _, a := range acts {
		items := len(a.Submenu)
		a.Submenu = visible(a.Submenu)
		if !a.Absent && (items == 0 || len(a.Submenu) > 0) {
			out = append(out, a)
		}
	}
	return out
}

func (a ActionButton) linkAttrs() templ.Attributes {
	out := templ.Attributes{}
	if a.Dialog {
		out["data-dialog"] = true
	}
	if a.Label != "" {
		out["aria-label"] = a.Label
	}
	return out
}

func (a ActionButton) formAttrs() templ.OrderedAttributes {
	swap := "none"
	if a.ReplaceTarget != "" {
		swap = "outerHTML"
	}
	out := PostFormAttrs(a.Post, a.ReplaceTarget, swap)
	if a.Confirm != "" {
		out = append(out, templ.KeyValue[string, any]{Key: "hx-confirm", Value: a.Confirm})
		if a.ConfirmTone != "" {
			out = append(out, templ.KeyValue[string, any]{Key: "data-tone", Value: a.ConfirmTone})
		}
	}
	return out
}

func (a ActionButton) buttonAttrs() templ.Attributes {
	if a.Label != "" {
		return templ.Attributes{"aria-label": a.Label}
	}
	return nil
}

// precededBySeparator reports whether a separator precedes the action in a menu.
func (a ActionButton) precededBySeparator() bool { return a.Danger || a.Separated }
