package pool

import (
	"slices"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Form is the form of a new pool, as typed.
type Form struct {
	Name   string
	Spec   fleet.PoolSpec
	Hosts  []kit.HostChoice
	Labels kit.HostLabelForm
	Errors kit.Errors

	Publish kit.PublishForm
}

// sourceFields are the fields of a pool's source. Each is shown only for the pool kinds that have the field.
func (f Form) sourceFields() (out []sourceField) {
	for _, p := range fleet.PoolFields() {
		out = append(out, sourceField{kit.Field{
			Name: "source[" + p.Name + "]", Label: p.Label, Hint: p.Hint, Value: *p.At(&f.Spec), Error: f.Errors.At("spec." + p.Name),
			Attrs: templ.Attributes{"spellcheck": "false", "autocomplete": "off"}, WrapperAttrs: showForKinds(p.Kinds()),
		}, p.Choices})
	}
	return out
}

// sourceField is a text field, or a choice for a field with few values.
type sourceField struct {
	kit.Field
	choices []string
}

func (f sourceField) options() []kit.Option {
	out := []kit.Option{{Value: "", Text: "Choose…"}}
	for _, c := range f.choices {
		out = append(out, kit.Option{Value: c, Text: c})
	}
	return out
}

// showForKinds returns attributes that show a part of the form only for the given pool kinds.
func showForKinds(kinds []fleet.PoolKind) templ.Attributes {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return templ.Attributes{"data-show-when": "kind=" + strings.Join(words, "|")}
}

// secretField is the input of the pool's credentials. It never repeats the typed secret.
func (f Form) secretField() kit.Field {
	var kinds []fleet.PoolKind
	var labels, hints []string
	for _, t := range fleet.PoolTypes() {
		if t.Secret != nil {
			kinds = append(kinds, t.Kind)
			if !slices.Contains(labels, t.Secret.Label) {
				labels, hints = append(labels, t.Secret.Label), append(hints, t.Secret.Label+": "+t.Secret.Hint)
			}
		}
	}
	return secretField(strings.Join(labels, " or "), strings.Join(hints, " "), f.Errors, showForKinds(kinds))
}

func secretField(label, hint string, e kit.Errors, wrap templ.Attributes) kit.Field {
	return kit.Field{
		Name: "secret", Label: label, Type: "password", Hint: hint + " The portal stores it encrypted, sends it only to the hosts of the pool and never shows it again.", Error: e.At("secret"), WrapperAttrs: wrap,
		Attrs: templ.Attributes{"autocomplete": "new-password", "spellcheck": "false", "maxlength": "255"},
	}
}

// filePoolKinds are the pool kinds whose volumes are files.
func filePoolKinds() (out []fleet.PoolKind) {
	for _, t := range fleet.PoolTypes() {
		if t.FilePool {
			out = append(out, t.Kind)
		}
	}
	return out
}

// sharableKinds are the pool kinds for which the person chooses between shared and local.
func sharableKinds() (out []fleet.PoolKind) {
	for _, t := range fleet.PoolTypes() {
		if !t.Shared && !t.Local {
			out = append(out, t.Kind)
		}
	}
	return out
}

// MissingCapabilities are the capabilities that a host lacks for pools of the kind. If kind is empty, they are notes
// for each kind, and the form shows only those of the chosen kind.
func MissingCapabilities(h fleet.Host, kind fleet.PoolKind) (out []kit.MissingCapability) {
	if h.Status == nil {
		return nil
	}
	for _, gap := range h.Status.Inventory.PoolGaps {
		switch kind {
		case "":
			out = append(out, kit.MissingCapability{Text: "No " + poolKindName(fleet.PoolSpec{Kind: gap.Kind}) + " pools: " + gap.Why, When: showForKinds([]fleet.PoolKind{gap.Kind})})
		case gap.Kind:
			out = append(out, kit.MissingCapability{Text: gap.Why})
		}
	}
	return out
}
