package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// SavedViewsPage is the views that a person keeps of a list, and the form that keeps one more.
type SavedViewsPage struct {
	List   string // "vms"
	Query  string // of the list as it is shown, as fleet.ViewQuery writes it: what the form keeps
	Views  []fleet.SavedView
	Name   string // as it was typed
	Errors Errors
	Focus  bool // an answer to the form: the field has the focus again
}

var listWords = map[string]string{
	"vms": "Virtual machines", "hosts": "Hosts", "pools": "Storage pools", "networks": "Networks", "tasks": "Tasks",
	"images": "Images", "security-groups": "Security groups",
}

// problem is why the view was not kept: of its name, or of the whole.
func (p SavedViewsPage) problem() string {
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
