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

// FirstBootForm is the form of a guest's first-boot data. Its form fields have the names of the API's fields.
type FirstBootForm struct {
	Typed         url.Values
	Errors        kit.Errors
	Specs         []fleet.Customization // specs to choose from; empty in the form of a spec itself
	Current       fleet.VMFirstBoot     // current first-boot data of an existing VM
	Spec          bool                  // the form edits a customization spec, which may contain variables
	OtherSettings string                // text about settings without a field in the form, which an edit keeps
}

// Names of form fields that the API does not have.
const (
	FirstBootKindField         = "firstBoot.kind"
	FirstBootNetworkField      = "firstBoot.cloudInit.network"
	FirstBootPasswordField     = "firstBoot.cloudInit.users[0].password"
	FirstBootPasswordHashField = "firstBoot.cloudInit.users[0].passwordHash"
	FirstBootSpecField         = "firstBoot.customizationId"
	FirstBootVariablesField    = "firstBoot.variables"
	FirstBootBySpec            = "spec"  // kind: by customization spec
	FirstBootKeepCurrent       = "again" // kind: apply the current first-boot data again
)

func (f FirstBootForm) field(name string, in kit.Field) kit.Field {
	in.Name = name
	in.Value = f.Typed.Get(name)
	if in.Error == "" {
		in.Error = f.Errors.ForFieldOrBelow(name)
	}
	return in
}

// cloudInitField is a field of the cloud-init form.
func (f FirstBootForm) cloudInitField(name string, in kit.Field) kit.Field {
	return f.field("firstBoot.cloudInit."+name, in)
}

func (f FirstBootForm) kindOptions() []kit.Option {
	var out []kit.Option
	if f.Current.Kind != "" {
		out = append(out, kit.Option{Value: FirstBootKeepCurrent, Text: "Current settings, applied again"})
	}
	for _, o := range fleet.FirstBootKinds {
		if o.Value != "" || !f.Spec {
			out = append(out, kit.Option{Value: o.Value, Text: o.Text})
		}
	}
	if len(f.Specs) > 0 {
		out = append(out, kit.Option{Value: FirstBootBySpec, Text: "Customization spec"})
	}
	return out
}

func (f FirstBootForm) specOptions() []kit.Option {
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

// DefaultUserLabel is the label of a first-boot user without a name: see fleet.FirstUser.
const DefaultUserLabel = "the image's default user"

// summary summarizes the typed values; empty: nothing typed.
func (f FirstBootForm) summary() string {
	kind := f.Typed.Get(FirstBootKindField)
	switch kind {
	case "":
		return ""
	case FirstBootBySpec:
		for _, s := range f.Specs {
			if string(s.ID) == f.Typed.Get(FirstBootSpecField) {
				return "by the customization spec " + s.Name
			}
		}
		return "by a customization spec"
	}
	words := fleet.FirstBootKind(kind).Text()
	if kind != string(fleet.CloudInit) {
		return words
	}
	switch user := f.Typed.Get("firstBoot.cloudInit.users[0].name"); {
	case user != "":
		words += ": user " + user
	case f.Typed.Get(FirstBootPasswordField) != "", f.Typed.Get(FirstBootPasswordHashField) != "", f.Typed.Get("firstBoot.cloudInit.users[0].sshKeys") != "":
		words += ": " + DefaultUserLabel
	}
	return words
}

// hasErrors reports whether any field of the first-boot data has an error.
func (f FirstBootForm) hasErrors() bool { return f.Errors.ForFieldOrBelow("firstBoot") != "" }

func textArea(in kit.Field, rows, placeholder string) kit.Field {
	in.Attrs = map[string]any{"rows": rows, "spellcheck": "false", "autocapitalize": "none", "placeholder": placeholder}
	return in
}

// codeArea is a text area with a monospaced font.
func codeArea(in kit.Field, rows, placeholder string) kit.Field {
	in = textArea(in, rows, placeholder)
	in.Attrs["class"], in.Attrs["wrap"] = "mono", "off"
	return in
}

func textInput(in kit.Field, placeholder string) kit.Field {
	in.Attrs = map[string]any{"spellcheck": "false", "autocapitalize": "none", "autocomplete": "off", "placeholder": placeholder}
	return in
}

func (f FirstBootForm) passwordField() kit.Field {
	in := f.field(FirstBootPasswordField, kit.Field{Label: "Password", Type: "password", Hint: "Stored as a hash. Empty: SSH key only."})
	in.Value = ""
	in.Attrs = map[string]any{"autocomplete": "new-password"}
	if f.Typed.Get(FirstBootPasswordHashField) != "" {
		in.Hint = "A password is set and not shown. Empty: unchanged."
	}
	return in
}

// firstBootForm is the part of a VM's form with the first-boot data.
func (f Form) firstBootForm() FirstBootForm {
	return FirstBootForm{Typed: f.Typed, Errors: f.Errors, Specs: f.Specs}
}

// FirstBootPage is the dialog that changes a VM's first-boot data. The guest reads the data at its next start.
type FirstBootPage struct {
	VM     fleet.VMView
	Form   FirstBootForm
	SetBy  string // who set the current first-boot data; empty: there is none
	SetAt  string // when the data was set, in words
	Why    string // why the data cannot be changed now
	Errors kit.Errors
}

func (p FirstBootPage) dialog() kit.Dialog {
	return kit.Dialog{
		Title: "First boot of " + p.VM.Name, Button: "Save", Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "first-boot"), Why: p.Why,
	}
}

// firstBootActions are the actions on a VM's first-boot data.
func (p Page) firstBootActions() []kit.ActionButton {
	act := kit.ActionButton{Icon: "pencil", Word: "First boot…", Href: p.path("first-boot"), Dialog: true}.WithReasonFrom(p.Actions, fleet.ActEdit)
	return []kit.ActionButton{act}
}

// CustomizationList is the list of the customization specs that the actor may see.
type CustomizationList struct {
	Actor fleet.Actor
	Specs []fleet.Customization
}

func newCustomizationAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New customization spec", Href: "/customizations/new"}.RequirePermission(a, policy.VMChange)
}

// CustomizationForm is the form of a new or existing customization spec.
type CustomizationForm struct {
	Actor    fleet.Actor
	ID       fleet.CustomizationID // empty: a new spec
	Typed    url.Values            // values other than the first-boot data: name, project, description, generation
	Form     FirstBootForm
	Projects kit.SelectChoices
	Seen     fleet.Customization // stored spec
	Errors   kit.Errors
	Why      string // why the actor may not change the spec

	Publish   *kit.PublishingPanel // nil: not shown
	MayDelete bool                 // the actor may delete the spec, even if Why is set
}

func (p CustomizationForm) field(name string, in kit.Field) kit.Field {
	in.Name, in.Value, in.Error = name, p.Typed.Get(name), p.Errors.At(name)
	return in
}

func (p CustomizationForm) submitPath() string {
	if p.ID == "" {
		return "/customizations"
	}
	return views.CustomizationPath(p.ID)
}

// customizationOwner is the spec's project, or the projects that a fleet-wide spec is published to. Users who do not see
// all projects see only that the spec is fleet-wide.
func customizationOwner(a fleet.Actor, c fleet.Customization) string {
	switch n := len(c.Grants); {
	case c.ProjectID != "":
		return c.ProjectName
	case !policy.SeesAllProjects(a):
		return "fleet-wide"
	case fleet.GrantedTo("", c.Grants):
		return "every project"
	case n == 0:
		return "published to nobody"
	default:
		return kit.CountText(n, "project")
	}
}

// NewCustomizationPublishing returns the panel that publishes a spec, without projects to choose; nil for specs of
// projects, and for users who do not see the infrastructure.
func NewCustomizationPublishing(a fleet.Actor, c fleet.Customization) *kit.PublishingPanel {
	if c.ProjectID != "" || !policy.May(a, policy.InfraSee, "") {
		return nil
	}
	return &kit.PublishingPanel{
		Noun: "customization spec", Grants: c.Grants, Path: views.CustomizationPath(c.ID, "grants"),
		MayPublish: policy.May(a, policy.InfraChange, ""), StayText: "VMs do not change",
	}
}

// FirstBootNICLines writes NICs in the form's syntax, one per line.
func FirstBootNICLines(nics []fleet.FirstBootNIC) string {
	var lines []string
	for _, n := range nics {
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

func (p CustomizationForm) title() string {
	if p.ID == "" {
		return "New customization spec"
	}
	return p.Seen.Name
}
