package vm

import (
	"net/url"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// FirstForm asks what a guest is told when it first starts. Its fields have the names that the API has for them.
type FirstForm struct {
	Typed  url.Values
	Errors kit.Errors
	Specs  []fleet.Customization // to choose from; of the form of one itself none
	Has    fleet.VMFirstBoot     // of a VM that has one
	Spec   bool                  // it is a customization spec's, which may name variables
	More   string                // what there is beside what the form asks for, and stays, in words
}

// Names of fields that have no place in the API.
const (
	FirstKind     = "firstBoot.kind"
	FirstNetwork  = "firstBoot.cloudInit.network"
	FirstPassword = "firstBoot.cloudInit.users[0].password"
	FirstKept     = "firstBoot.cloudInit.users[0].passwordHash"
	FirstSpec     = "firstBoot.customizationId"
	FirstValues   = "firstBoot.variables"
	BySpec        = "spec"  // a kind: by a customization spec
	Again         = "again" // likewise: what there is, once more
)

func (f FirstForm) first(name string, in kit.Field) kit.Field {
	in.Name = name
	in.Value = f.Typed.Get(name)
	if in.Error == "" {
		in.Error = f.Errors.Under(name)
	}
	return in
}

// cloud is a field of cloud-init's form.
func (f FirstForm) cloud(name string, in kit.Field) kit.Field {
	return f.first("firstBoot.cloudInit."+name, in)
}

func (f FirstForm) kinds() []kit.Option {
	var out []kit.Option
	if f.Has.Kind != "" {
		out = append(out, kit.Option{Value: Again, Text: "What it has, once more"})
	}
	for _, o := range fleet.FirstBootKinds {
		if o.Value != "" || !f.Spec {
			out = append(out, kit.Option{Value: o.Value, Text: o.Text})
		}
	}
	if len(f.Specs) > 0 {
		out = append(out, kit.Option{Value: BySpec, Text: "By a customization spec"})
	}
	return out
}

func (f FirstForm) specs() []kit.Option {
	out := []kit.Option{{Text: "Choose one"}}
	for _, s := range f.Specs {
		text := s.Name
		if s.ProjectName != "" {
			text += " (" + s.ProjectName + ")"
		}
		if len(s.Variables) > 0 {
			text += ": asks for " + strings.Join(s.Variables, ", ")
		}
		out = append(out, kit.Option{Value: string(s.ID), Text: text})
	}
	return out
}

// DefaultUser names a user without a name: see fleet.FirstUser.
const DefaultUser = "the image's default user"

// now is what is typed, in words; empty: nothing.
func (f FirstForm) now() string {
	kind := f.Typed.Get(FirstKind)
	switch kind {
	case "":
		return ""
	case BySpec:
		for _, s := range f.Specs {
			if string(s.ID) == f.Typed.Get(FirstSpec) {
				return "by the customization spec " + s.Name
			}
		}
		return "by a customization spec"
	}
	words := fleet.FirstBootKind(kind).Words()
	if kind != string(fleet.CloudInit) {
		return words
	}
	switch user := f.Typed.Get("firstBoot.cloudInit.users[0].name"); {
	case user != "":
		words += ": user " + user
	case f.Typed.Get(FirstPassword) != "", f.Typed.Get(FirstKept) != "", f.Typed.Get("firstBoot.cloudInit.users[0].sshKeys") != "":
		words += ": " + DefaultUser
	}
	return words
}

// wrong reports whether anything typed here is refused.
func (f FirstForm) wrong() bool { return f.Errors.Under("firstBoot") != "" }

func area(in kit.Field, rows, placeholder string) kit.Field {
	in.Attrs = map[string]any{"rows": rows, "spellcheck": "false", "autocapitalize": "none", "placeholder": placeholder}
	return in
}

// code is area for a text as it is, with a type of one width.
func code(in kit.Field, rows, placeholder string) kit.Field {
	in = area(in, rows, placeholder)
	in.Attrs["class"], in.Attrs["wrap"] = "mono", "off"
	return in
}

func word(in kit.Field, placeholder string) kit.Field {
	in.Attrs = map[string]any{"spellcheck": "false", "autocapitalize": "none", "autocomplete": "off", "placeholder": placeholder}
	return in
}

func (f FirstForm) password() kit.Field {
	in := f.first(FirstPassword, kit.Field{Label: "Password", Type: "password", Hint: "Stored as a hash. Blank: SSH key only."})
	in.Value = ""
	in.Attrs = map[string]any{"autocomplete": "new-password"}
	if f.Typed.Get(FirstKept) != "" {
		in.Hint = "One is set and not shown. Blank: it stays."
	}
	return in
}

// firstForm is what a form of a VM asks about it.
func (f Form) firstForm() FirstForm {
	return FirstForm{Typed: f.Typed, Errors: f.Errors, Specs: f.Specs}
}

// FirstPage asks what a VM's guest is told at its next start.
type FirstPage struct {
	VM     fleet.VMView
	Form   FirstForm
	SetBy  string // who gave what there is; empty: there is nothing
	SetAt  string // when, in words
	Why    string // why it cannot be changed now
	Errors kit.Errors
}

func (p FirstPage) dialog() kit.Dialog {
	return kit.Dialog{
		Title: "First boot of " + p.VM.Name, Button: "Save", Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "first-boot"), Why: p.Why,
	}
}

// firstActs is what can be asked of a VM's first boot.
func (p Page) firstActs() []kit.Act {
	act := kit.Act{Icon: "pencil", Word: "First boot…", Href: p.path("first-boot"), Dialog: true}.As(p.Actions, fleet.ActEdit)
	return []kit.Act{act}
}

// SpecList are the customization specs that somebody sees.
type SpecList struct {
	Actor fleet.Actor
	Specs []fleet.Customization
}

func newSpec(a fleet.Actor) kit.Act {
	return kit.Act{Icon: "plus", Word: "New customization spec", Href: "/customizations/new"}.Needs(a, policy.VMChange)
}

// SpecPage is a customization spec that is made or changed.
type SpecPage struct {
	ID       fleet.CustomizationID // empty: a new one
	Typed    url.Values            // beside the first boot's: name, project, description, generation
	Form     FirstForm
	Projects kit.Choices
	Seen     fleet.Customization // as it is
	Errors   kit.Errors
	Why      string // why who looks cannot change it

	MayDelete bool // all the same
}

func (p SpecPage) field(name string, in kit.Field) kit.Field {
	in.Name, in.Value, in.Error = name, p.Typed.Get(name), p.Errors.At(name)
	return in
}

func (p SpecPage) action() string {
	if p.ID == "" {
		return "/customizations"
	}
	return views.CustomizationPath(p.ID)
}

func owner(c fleet.Customization) string {
	if c.ProjectID == "" {
		return "every project"
	}
	return c.ProjectName
}

// NetworkText writes NICs as people type them: one a line.
func NetworkText(cards []fleet.FirstBootNIC) string {
	var lines []string
	for _, n := range cards {
		words := slices.Clone(n.Addresses)
		if len(words) == 0 {
			words = []string{"dhcp"}
		}
		for _, g := range n.Gateways {
			words = append(words, "via", g)
		}
		for _, d := range n.DNS {
			words = append(words, "dns", d)
		}
		for _, s := range n.Search {
			words = append(words, "search", s)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

func (p SpecPage) title() string {
	if p.ID == "" {
		return "New customization spec"
	}
	return p.Seen.Name
}
