package vm

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/flavor"
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

// PrefillFlavor is the button that fills in the size of the chosen flavor.
const PrefillFlavor = "flavor"

// FlavorField is the form field of the flavor; empty: a custom size.
const FlavorField = "flavorId"

// ExpiryField is the form field of the days until a new VM expires; empty: never.
const ExpiryField = "expiryDays"

const setByProject = "Set by the project."

// offersFlavors reports whether the form has a choice of flavors.
func (f Form) offersFlavors() bool {
	return !f.Edits && (len(f.Rules.Flavors) > 0 || f.Rules.LimitsSizes())
}

// ChosenFlavor returns the flavor that the form chooses; nil: none.
func (f Form) ChosenFlavor() *flavor.Flavor {
	id := flavor.ID(f.Typed.Get(FlavorField))
	i := slices.IndexFunc(f.Rules.Flavors, func(v flavor.Flavor) bool { return v.ID == id })
	if f.Edits || i < 0 {
		return nil
	}
	return &f.Rules.Flavors[i]
}

// flavorField is the choice of the size. After a change, the page shows the size of the chosen flavor.
func (f Form) flavorField() kit.Field {
	in := kit.Field{Label: "Size", Attrs: templ.Attributes{
		"hx-post": "/vms", "hx-trigger": "change", "hx-include": "#vm-form", "hx-target": "#vm-form", "hx-swap": "outerHTML", "hx-vals": `{"begin":"` + PrefillFlavor + `"}`,
	}}
	if f.Rules.LimitsSizes() {
		in.Hint = "The project allows only flavors."
		in.Error = firstFieldError(f.Errors, FlavorField, "spec.cpus", "spec.memoryMiB")
	}
	return f.field(FlavorField, in)
}

func (f Form) flavorOptions() []kit.Option {
	var out []kit.Option
	switch {
	case !f.Rules.LimitsSizes():
		out = append(out, kit.Option{Text: "Custom"})
	case len(f.Rules.Flavors) == 0:
		out = append(out, kit.Option{Text: "No flavor is published to the project"})
	case f.ChosenFlavor() == nil:
		out = append(out, kit.Option{Text: "Choose a size"})
	}
	for _, v := range f.Rules.Flavors {
		out = append(out, kit.Option{Value: string(v.ID), Text: v.Name + " · " + v.SizeText()})
	}
	return out
}

// ifCustomSize are the attributes of a field that is shown only for a custom size.
func (f Form) ifCustomSize(in kit.Field) kit.Field {
	if f.offersFlavors() {
		in.WrapperAttrs = templ.Attributes{"data-show-when": FlavorField + "="}
	}
	return in
}

// isSizedByFlavor reports whether the chosen flavor sets the size of the disk.
func (f Form) isSizedByFlavor(at string) bool {
	v := f.ChosenFlavor()
	return at == firstDiskField && v != nil && v.DiskBytes > 0
}

// locks reports whether the project sets the value with the key, so that the form of a new VM shows it fixed.
func (f Form) locks(key string) bool {
	switch {
	case f.Edits || !f.Rules.Locks(key):
		return false
	case key == flavor.KeyPool:
		return f.Rules.PoolID != ""
	case key == flavor.KeyNetwork:
		return f.Rules.NetworkID != ""
	}
	return true
}

// fixedFirmware is the firmware that the form shows fixed: of a VM with a source, that of the source, because its
// operating system needs it.
func (f Form) fixedFirmware() string {
	if typed := f.Typed.Get("spec.firmware"); f.Source != nil && typed != "" {
		return typed
	}
	return string(f.Rules.DefaultFirmware())
}

func (f Form) nameHint() string {
	hint := "Lower-case letters, digits, dots and hyphens."
	if p := f.Rules.NamePattern; p != "" && !f.Edits && !f.Rules.Free {
		hint += " The project's VMs have names like " + p + "."
	}
	return hint
}

// groupsHint describes the security groups of new NICs; empty: the project sets none.
func (f Form) groupsHint() string {
	names := f.Rules.GroupsText()
	switch {
	case f.Edits || names == "":
		return ""
	case f.locks(flavor.KeySecurityGroups):
		return "Security groups of the NICs: " + names + ". " + setByProject
	}
	return "NICs without security groups get " + names + "."
}

// ApplyFlavor sets the typed size to that of the chosen flavor.
func (f Form) ApplyFlavor(memory func(mib int) []string, disk func(bytes int64) string) {
	v := f.ChosenFlavor()
	if v == nil {
		return
	}
	f.Typed["spec.cpus"], f.Typed["spec.memoryMiB"] = []string{strconv.Itoa(v.CPUs)}, memory(v.MemoryMiB)
	if at := firstDiskField + ".sizeBytes"; v.DiskBytes > 0 && f.Typed.Has(firstDiskField+".source") && f.Source.disksAreNew() {
		f.Typed.Set(at, disk(v.DiskBytes))
	}
}

// disksAreNew reports whether the user chooses the source of each disk.
func (s *NewVMSource) disksAreNew() bool { return s == nil || s.Disks == nil }

// firmwareLabel is the name of a firmware.
func firmwareLabel(value string) string { return flavor.FirmwareText(fleet.Firmware(value)) }
