package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// SavedViewsPage lists a person's saved views of a list, with the form that saves the current view.
type SavedViewsPage struct {
	List   string // "vms"
	Query  string // query of the list as shown, which the form saves; in the format of fleet.SavedViewQuery
	Views  []fleet.SavedView
	Name   string // as typed
	Errors Errors
	Focus  bool // the page is the response to the form, so the name field gets the focus back
}

// listTitle returns the name of the list's objects in a heading.
func listTitle(list string) string {
	switch list {
	case "vms":
		return "Virtual machines"
	case "pools":
		return "Storage pools"
	}
	t, _ := fleet.ResourceTypeByPlural(list)
	return t.Title
}

// errorText is the reason why the view was not saved: an error of its name, or of the form.
func (p SavedViewsPage) errorText() string {
	if text := p.Errors.At("name"); text != "" {
		return text
	}
	return p.Errors.Form
}

func (p SavedViewsPage) attrs() templ.Attributes {
	attrs := templ.Attributes{"maxlength": "60", "autocomplete": "off"}
	if p.Focus {
		attrs["autofocus"] = true
	}
	return attrs
}
