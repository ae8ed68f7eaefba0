package vm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// formSection is a section of the form that the user can open. It is closed unless one of its fields has an error.
type formSection struct {
	id, title string
	summary   string // summary of its values
	open      bool
	when      fleet.EffectTime // when an edit of any of its fields takes effect; empty: each field shows separately when its edit takes effect
	fields    []formField
}

// sectionHelp maps a form section to its topic in the manual.
var sectionHelp = map[fleet.FormSection]kit.Topic{
	fleet.SectionCPU: kit.HelpVMCPU, fleet.SectionMemory: kit.HelpVMMemory, fleet.SectionBoot: kit.HelpVMBoot, fleet.SectionDisplay: kit.HelpVMDisplay,
	fleet.SectionSecurity: kit.HelpVMSecurity, fleet.SectionDevices: kit.HelpVMDevices, fleet.SectionPower: kit.HelpVMPower, fleet.SectionMigration: kit.HelpVMMigration,
}

// topic is the section's topic in the manual. Sections of one disk or NIC have none: the enclosing section has it.
func (s formSection) topic() kit.Topic { return sectionHelp[fleet.FormSection(s.title)] }

// formField is a VM field with its form name.
type formField struct {
	name     string
	input    fleet.FormInput
	reserved string
	when     fleet.EffectTime
}

func (f Form) sections() []formSection {
	var out []formSection
	for _, s := range fleet.VMSections {
		one := formSection{id: "vm-" + kit.ElementIDSlug(string(s)), title: string(s)}
		for _, v := range fleet.VMFields {
			if v.Input.Section == s && (!f.Edits || v.TakesEffect != fleet.WhenNever) {
				one.fields = append(one.fields, f.formFieldOf(v))
			}
		}
		out = append(out, f.withSummary(one))
	}
	return out
}

// formFieldOf is the form field of a VM field.
func (f Form) formFieldOf(v fleet.VMField) formField {
	part := formField{"spec." + v.Name, v.Input, v.ReservedReason, f.field("spec."+v.Name, kit.Field{}).TakesEffect}
	if v.ReservedPaths != nil {
		part.reserved = "" // each row of the list shows the reason for its own fields
	}
	return part
}

// rowSections are the sections of a row of a disk or NIC. If stays is true, the row edits an existing device: fields
// that only a new device can have are omitted, and the others may take effect later.
func rowSections[S any](f Form, at string, fields []fleet.Field[S], stays bool) []formSection {
	var out []formSection
	for _, s := range []fleet.FormSection{fleet.SectionDevice, fleet.SectionLimits} {
		one := formSection{id: kit.ElementIDSlug(at) + "-" + kit.ElementIDSlug(string(s)), title: string(s)}
		for _, v := range fields {
			if v.Input.Section != s || stays && v.TakesEffect == fleet.WhenNever { // a field that can be set only at creation
				continue
			}
			part := formField{at + "." + v.Name, v.Input, v.ReservedReason, ""}
			if stays && f.GuestRuns {
				part.when = v.TakesEffect
			}
			one.fields = append(one.fields, part)
		}
		out = append(out, f.withSummary(one))
	}
	return out
}

// withSummary returns the section with a summary of its values. Values that the user set come before defaults.
func (f Form) withSummary(one formSection) formSection {
	var set, defaults []string
	for i, p := range one.fields {
		if i == 0 {
			one.when = p.when
		} else if one.when != p.when {
			one.when = ""
		}
		if n := len(f.rowIndexes(p.name)); p.input.Kind == fleet.InputRows && n > 0 {
			set = append(set, p.input.Label+": "+strconv.Itoa(n))
		}
		one.open = one.open || f.Errors.ForFieldOrBelow(p.name) != ""
		if now := f.typedValue(p.name); now != "" {
			set = append(set, p.input.Label+": "+p.valueText(now))
		} else if text := f.defaultText(p); text != "" {
			defaults = append(defaults, p.input.Label+": "+text)
		}
		one.open = one.open || f.Errors.At(p.name) != ""
	}
	one.summary = cmp.Or(strings.Join(append(set, defaults...), ", "), "none")
	return one
}

// defaultText describes the field's default in words.
func (f Form) defaultText(p formField) string {
	if p.name == cpuModelField {
		return cmp.Or(f.cpuModelDefault(), p.input.DefaultText())
	}
	return p.input.DefaultText()
}

// valueText describes a value of the field in words.
func (p formField) valueText(value string) string {
	if p.input.Kind == fleet.InputMedium || p.input.Kind == fleet.InputFile {
		_, volume, _ := strings.Cut(value, "/")
		return volume
	}
	return p.input.ValueText(value)
}

// typedValue is the typed value of a field. It is empty for no value, "0" and "false".
func (f Form) typedValue(name string) string {
	texts := f.Typed[name]
	if len(texts) == 0 || slices.Contains([]string{"0", "false"}, texts[len(texts)-1]) {
		return ""
	}
	return texts[len(texts)-1]
}

func (f Form) inputField(p formField, section fleet.EffectTime) kit.Field {
	out := f.field(p.name, kit.Field{Label: p.input.Label, Hint: p.input.Help, Unit: p.input.Unit})
	out.Value, out.TakesEffect = f.typedValue(p.name), p.when
	if section != "" {
		out.TakesEffect = "" // the section's heading shows when an edit takes effect
	}
	if f.isFieldForbidden(p) {
		out.Hint = "Requires permission to change infrastructure: " + p.reserved + "."
	}
	return out
}

// omitsField reports whether the form omits a field that the actor may not set: tenants do not see it.
// The form omits device classes if the user can choose none and the VM has none.
func (f Form) omitsField(p formField) bool {
	return f.isFieldForbidden(p) && !f.MaySeeHosts ||
		p.name == deviceClassesField && !f.MayChangeHosts && len(f.rowIndexes(p.name)) == 0 && !hasChoices(f.DeviceClasses)
}

const deviceClassesField = "spec.deviceClasses"

func hasChoices(in kit.SelectChoices) bool {
	return slices.ContainsFunc(in.Options, func(o kit.Option) bool { return o.Value != "" })
}

// deviceClassChoices are the options of a device class. A VM keeps a class that the user may not see.
func (f Form) deviceClassChoices(value string) kit.SelectChoices {
	out := f.DeviceClasses
	if value != "" && !hasOption(out.Options, value) {
		out.Options = append(slices.Clone(out.Options), kit.Option{Value: value, Text: "Unpublished device class"})
	}
	return out
}

// allocatedDevices lists the host's devices that the VM has of its device classes, for users who may see hosts.
func (p Page) allocatedDevices() []string {
	if !p.MaySeeHosts {
		return nil
	}
	var out []string
	for _, d := range p.VM.Spec.DeviceClasses {
		devices := p.Devices[d.ClassID]
		out = append(out, devices...)
		if n := d.Number() - len(devices); n > 0 {
			out = append(out, kit.CountText(n, "device")+" of "+d.ClassName+" not allocated: edit the VM to try again")
		}
	}
	return out
}

// isFieldForbidden reports whether the actor may not set the field. A field that already has a value is allowed, so that the
// value can be removed.
func (f Form) isFieldForbidden(p formField) bool {
	return p.reserved != "" && !f.MayChangeHosts && f.typedValue(p.name) == "" && len(f.rowIndexes(p.name)) == 0
}

// suggestions are the suggestions for a text field. Those for CPU models come from the hosts; actors who may see hosts
// also get the number of hosts that support the model.
func (f Form) suggestions(p formField) []fleet.Option {
	if p.name != cpuModelField {
		return p.input.Options
	}
	out := slices.Clone(p.input.Options)
	for _, m := range f.CPUModels {
		text := ""
		switch {
		case m.Of == 0:
		case m.Hosts == m.Of:
			text = "on all " + kit.CountText(m.Of, "host")
		default:
			text = "on " + strconv.Itoa(m.Hosts) + " of " + kit.CountText(m.Of, "host")
		}
		out = append(out, fleet.Option{Value: m.Model, Text: text})
	}
	return out
}

// fieldOptions are the options of a select. A typed value that is no option is added, so that it stays visible.
func fieldOptions(in fleet.FormInput, value string) []kit.Option {
	var out []kit.Option
	for _, o := range in.Options {
		out = append(out, kit.Option{Value: o.Value, Text: o.Text})
	}
	if !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
		out = append(out, kit.Option{Value: value, Text: value})
	}
	return out
}

// nonDefaultFields are the VM's fields that differ from a new VM's defaults.
func nonDefaultFields(vm fleet.VMView) []fleet.VMField {
	var out []fleet.VMField
	for _, v := range fleet.VMFields {
		if v.Input.Section != "" && (!v.Default(vm.Spec) || fieldDrift(vm, v.Name) != nil || isFieldPendingNextBoot(vm, v.Name)) {
			out = append(out, v)
		}
	}
	return out
}

// existingDisk is the existing disk that a row of the form edits; nil if the row is a new disk.
func (f Form) existingDisk(at string) *fleet.Disk {
	for i, d := range f.VM.Spec.Disks {
		if f.Typed.Get(at+".keep") == VolumeValue(d.PoolID, d.Volume) {
			return &f.VM.Spec.Disks[i]
		}
	}
	return nil
}

// isExistingNIC reports whether a form row edits an existing NIC.
func (f Form) isExistingNIC(at string) bool {
	return slices.ContainsFunc(f.VM.Spec.NICs, func(n fleet.NIC) bool { return strings.EqualFold(n.MAC, f.Typed.Get(at+".mac")) })
}

// hotPlugHint describes how far CPUs or memory of the running guest can grow without a restart. It is empty if they
// cannot.
func (f Form) hotPlugHint(field string) string {
	s := f.VM.Status
	switch {
	case !f.GuestRuns || s == nil:
	case field == "cpus" && s.MinCPUs > 0 && s.MinCPUs < s.CPUs:
		return fmt.Sprintf("From %d to %s immediately, other values at the next start.", s.MinCPUs, kit.CountText(max(s.MaxCPUs, s.CPUs), "vCPU"))
	case field == "cpus" && s.MaxCPUs > s.CPUs:
		return "Up to " + kit.CountText(s.MaxCPUs, "vCPU") + " immediately, fewer at the next start."
	case field == "memoryMiB" && len(s.Modules) > 0:
		return "Up to " + kit.Bytes(int64(max(s.MaxMemory, s.MemoryMiB))<<20) + " immediately, in steps of 128 MiB. " + memoryModulesText(s.Modules) + " can be removed again immediately; less memory at the next start."
	case field == "memoryMiB" && s.MaxMemory > s.MemoryMiB:
		return "Up to " + kit.Bytes(int64(s.MaxMemory)<<20) + " immediately, in steps of 128 MiB; less at the next start."
	}
	return ""
}

// memoryModulesText lists the sizes of hot-plugged memory modules.
func memoryModulesText(all []fleet.Module) string {
	var out []string
	for _, m := range all {
		out = append(out, kit.Bytes(int64(m.MiB)<<20))
	}
	return strings.Join(out, ", ")
}

func suggestionListID(in kit.Field) string { return kit.ElementIDSlug(in.Name) + "-list" }

func withSuggestionList(in kit.Field, of fleet.FormInput) kit.Field {
	in.Attrs = templ.Attributes{"list": suggestionListID(in), "spellcheck": "false", "autocomplete": "off", "placeholder": cmp.Or(of.Example, "default")}
	return in
}

func asNumberInput(in kit.Field, disabled bool, of fleet.FormInput) kit.Field {
	none := "default"
	if of.Section == fleet.SectionLimits {
		none = "none"
	}
	none = cmp.Or(of.Example, none)
	in.Short, in.Attrs = true, templ.Attributes{"inputmode": "numeric", "placeholder": none, "disabled": disabled}
	return in
}

func disabledIf(in kit.Field, disabled bool) kit.Field {
	in.Attrs = templ.Attributes{"disabled": disabled}
	return in
}
