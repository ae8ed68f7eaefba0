package vm

import (
	"slices"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Names of form fields that the API does not have: the proposed defaults, and the button that loads another project's
// defaults.
const (
	ProposedPoolField      = "proposed.pool"
	ProposedNetworkField   = "proposed.network"
	PrefillProjectDefaults = "project"
)

// NetworkValue is the form value of a network; empty: none.
func NetworkValue(kind fleet.NetworkKind, name string) string {
	if name == "" {
		return ""
	}
	return string(kind) + ":" + name
}

// proposedNetwork is the form value of the default network.
func (f Form) proposedNetwork() string {
	return NetworkValue(f.Default.Network.Kind, f.Default.Network.Name)
}

// projectField is the select of the project. After a change, the page loads the defaults of the chosen project.
func (f Form) projectField() kit.Field {
	return f.field("projectId", kit.Field{Label: "Project", Attrs: templ.Attributes{
		"hx-post": "/vms", "hx-trigger": "change", "hx-include": "#vm-form", "hx-target": "#vm-form", "hx-swap": "outerHTML", "hx-vals": `{"begin":"` + PrefillProjectDefaults + `"}`,
	}})
}

// poolField is the select of a pool, which preselects the default pool.
func (f Form) poolField(name string, in kit.Field) kit.Field {
	in = f.field(name, in)
	if !hasOption(f.Pools.Options, in.Value) {
		in.Value = string(f.Default.Pool.ID)
	}
	if d := f.Default.Pool; d.ID != "" {
		in.Hint = defaultHintText(in.Hint, d.Name, d.Why)
	}
	return in
}

// networkField is the select of a network, which preselects the default network. A NIC of an imported or cloned VM
// keeps a network of the same name.
func (f Form) networkField(name string, in kit.Field) kit.Field {
	in = f.field(name, in)
	if was := in.Value; !hasOption(f.Networks.Options, was) {
		in.Value = f.proposedNetwork()
		for _, o := range f.Networks.Options {
			if _, own, _ := strings.Cut(o.Value, ":"); own == was && was != "" {
				in.Value = o.Value
			}
		}
	}
	if d := f.Default.Network; d.ID != "" {
		in.Hint = defaultHintText(in.Hint, d.Name, d.Why)
	}
	return in
}

func hasOption(options []kit.Option, value string) bool {
	return value != "" && slices.ContainsFunc(options, func(o kit.Option) bool { return o.Value == value })
}

func defaultHintText(hint, name, why string) string {
	return strings.TrimSpace(hint + " Default: " + name + " (" + why + ").")
}

// withEmptyChoice adds an empty first option if value is empty. Without it, a browser would preselect the first option.
func withEmptyChoice(in kit.SelectChoices, value, text string) kit.SelectChoices {
	if value == "" && len(in.Options) > 0 {
		in.Options = slices.Insert(slices.Clone(in.Options), 0, kit.Option{Text: text})
	}
	return in
}

func withValue(in kit.Field, value string) kit.Field {
	in.Value = value
	return in
}

func (f Form) poolChoices(value string) kit.SelectChoices {
	return withEmptyChoice(f.Pools, value, "Choose a pool")
}

func (f Form) networkChoices(value string) kit.SelectChoices {
	return withEmptyChoice(f.Networks, value, "Choose a network")
}
