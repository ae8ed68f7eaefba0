package vm

import (
	"slices"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// fold is a section of the form that stays closed until it is used.
type fold struct {
	title  string
	now    string // what is set in it, in words; empty: nothing
	open   bool
	when   fleet.When // from when on an edit of any of them counts; empty: each says so itself
	fields []fleet.VMField
}

func (f Form) folds() []fold {
	var out []fold
	for _, s := range fleet.VMSections {
		one := fold{title: string(s)}
		var set []string
		for _, v := range fleet.VMFields {
			if v.Input.Section != s {
				continue
			}
			if when := f.field("spec."+v.Name, kit.Field{}).When; len(one.fields) == 0 {
				one.when = when
			} else if one.when != when {
				one.when = ""
			}
			one.fields = append(one.fields, v)
			if now := f.typedPart(v); now != "" {
				set = append(set, v.Input.Label+": "+v.Input.Says(now))
			}
			one.open = one.open || f.Errors.At("spec."+v.Name) != ""
		}
		one.now = strings.Join(set, ", ")
		out = append(out, one)
	}
	return out
}

// typedPart is what is typed in a field; empty: nothing, or what means the same.
func (f Form) typedPart(v fleet.VMField) string {
	texts := f.Typed["spec."+v.Name]
	if len(texts) == 0 || slices.Contains([]string{"0", "false"}, texts[len(texts)-1]) {
		return ""
	}
	return texts[len(texts)-1]
}

func (f Form) part(v fleet.VMField, when fleet.When) kit.Field {
	out := f.field("spec."+v.Name, kit.Field{Label: v.Input.Label, Hint: v.Input.Help, Unit: v.Input.Unit})
	if out.Value = f.typedPart(v); when != "" {
		out.When = "" // the section says it
	}
	if f.closed(v) {
		out.Hint = "Only those who may change infrastructure choose it: " + v.Reserved + "."
	}
	return out
}

// closed reports whether the field is not for who looks. It can be taken back all the same, where it is set.
func (f Form) closed(v fleet.VMField) bool {
	return v.Reserved != "" && !f.RunsHosts && f.typedPart(v) == ""
}

// optionsOf are a choice's options; what is typed and none of them stays to be seen.
func optionsOf(in fleet.Input, value string) []kit.Option {
	var out []kit.Option
	for _, o := range in.Options {
		out = append(out, kit.Option{Value: o.Value, Text: o.Text})
	}
	if !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
		out = append(out, kit.Option{Value: value, Text: value})
	}
	return out
}

// setParts are the fields of the VM that are not as a new one has them.
func setParts(vm fleet.VMView) []fleet.VMField {
	var out []fleet.VMField
	for _, v := range fleet.VMFields {
		if v.Input.Section != "" && (!v.Default(vm.Spec) || driftOf(vm, v.Name) != nil || waits(vm, v.Name)) {
			out = append(out, v)
		}
	}
	return out
}

func listID(in kit.Field) string { return kit.Slug(in.Name) + "-list" }

func withList(in kit.Field) kit.Field {
	in.Attrs = templ.Attributes{"list": listID(in), "spellcheck": "false", "autocomplete": "off", "placeholder": "default"}
	return in
}

func withNumber(in kit.Field, closed bool) kit.Field {
	in.Short, in.Attrs = true, templ.Attributes{"inputmode": "numeric", "placeholder": "default", "disabled": closed}
	return in
}

func withBox(in kit.Field, closed bool) kit.Field {
	in.Attrs = templ.Attributes{"disabled": closed}
	return in
}
