package kit

import (
	"maps"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// Field is one labelled input of a form. Name is the key in the form's values. ID is the element's id; empty: Name is
// also the id.
type Field struct {
	Name, ID, Label, Value string
	Type                   string // input type; empty: text
	Hint, Unit, Error      string
	Short, Required        bool
	TakesEffect            fleet.EffectTime // when an edit takes effect; empty: the form does not edit a VM
	Attrs                  templ.Attributes // further attributes of the input: autocomplete, rows
	WrapperAttrs           templ.Attributes // attributes of the enclosing element: data-show-when
}

func (f Field) id() string {
	if f.ID != "" {
		return f.ID
	}
	return ElementIDSlug(f.Name)
}

func (f Field) inputType() string {
	if f.Type == "" {
		return "text"
	}
	return f.Type
}

// describedBy lists the ids of the elements that explain the input, for aria-describedby.
func (f Field) describedBy() string {
	switch {
	case f.Hint != "" && f.Error != "":
		return f.id() + "-hint " + f.id() + "-error"
	case f.Hint != "":
		return f.id() + "-hint"
	case f.Error != "":
		return f.id() + "-error"
	}
	return ""
}

func (f Field) attrs() templ.Attributes {
	out := templ.Attributes{}
	if d := f.describedBy(); d != "" {
		out["aria-describedby"] = d
	}
	if f.Error != "" {
		out["aria-invalid"] = "true"
		out["autofocus"] = true // the first invalid field gets the focus, also after htmx has swapped the form
	}
	if f.Required {
		out["required"] = true
	}
	maps.Copy(out, f.Attrs)
	return out
}
