package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// EffectTime is the time at which a change of a VM takes effect.
type EffectTime string

const (
	WhenNow        EffectTime = "now"
	WhenNextBoot   EffectTime = "nextBoot" // at the running guest's next start
	WhenPoweredOff EffectTime = "powerOff" // the change is allowed only while the VM is off
	WhenNever      EffectTime = "never"    // no edit can make the change
)

// Change is one difference between a VM's current and intended state.
type Change struct {
	// JSON path: "spec.cpus", "spec.nics[1]"; for a removed element the path of its list: "spec.nics"
	Field string     `json:"field"`
	Words string     `json:"words"` // "vCPUs 2 → 4"
	When  EffectTime `json:"when"`  // for the VM's current power state
}

// HasGuest reports whether the VM has a running or paused guest. Some changes take effect only when it has none.
func (vm VM) HasGuest() bool {
	return vm.Status != nil && (vm.Status.Power == Running || vm.Status.Power == Paused)
}

// Diff lists the changes of an edit from vm to edited, in the order of the fields.
func (vm VM) Diff(edited VM) []Change {
	var out []Change
	add := func(field, format string, args ...any) {
		out = append(out, Change{field, fmt.Sprintf(format, args...), WhenNow})
	}
	if vm.Name != edited.Name {
		add("name", "name %s → %s", vm.Name, edited.Name)
	}
	if !maps.Equal(vm.Labels, edited.Labels) {
		add("labels", "labels")
	}
	if vm.Description != edited.Description {
		add("description", "description")
	}
	for _, c := range vm.Spec.Diff(edited.Spec, vm.HasGuest()) {
		switch f, _ := FieldByName(strings.TrimPrefix(c.Field, "spec.")); {
		case c.When == WhenNever && vm.cancelsGrowth(c, edited), c.When == WhenNextBoot && f.Live != nil && f.Live(vm, edited.Spec):
			c.When = WhenNow
		}
		out = append(out, c)
	}
	return out
}

// Diff lists the changes from s to edited. running is whether the VM has a running guest. Power is not compared: jobs
// change it, not edits.
func (s VMSpec) Diff(edited VMSpec, running bool) []Change {
	var out []Change
	for _, f := range VMFields {
		for _, c := range f.diff(s, edited) {
			if !running && c.When != WhenNever {
				c.When = WhenNow
			}
			out = append(out, c)
		}
	}
	return out
}

// Field describes one field of a type S: its texts, validation and form input, and how an agent distinguishes a
// user's edit from drift on the host.
type Field[S any] struct {
	Name, Type string // JSON name ("memoryMiB"), and the field's name in sentences ("memory")
	Words      func(S) string
	Same       func(a, b S) bool // equality as far as a host's definition preserves the value
	Value      func(S) any       // value of the field's JSON type
	Copy       func(to *S, from S)
	Decode     func(to *S, value []byte) error // parses the JSON of Value and rejects anything else
	Input      FormInput                       // form input; no Section: the form has a special input
	// ReservedReason: why only operators may set the field, as a clause; empty: all users who may change the VM may set it
	ReservedReason string
	// ReservedPaths returns the paths in the field that an edit newly sets and that only operators may set, such as
	// "numa[0].nodes"; nil: ReservedReason applies to the whole field
	ReservedPaths func(was, want S) []string
	Default       func(S) bool // reports whether the field has its default value; nil if the form has a special input
	// FixedReason: clause with the reason why no edit can change the field, and an alternative; empty: no specific reason
	FixedReason string
	PortalOnly  bool       // only the portal uses the field, so any agent version supports it
	TakesEffect EffectTime // when a change takes effect for a running guest

	same       func(a, b *S) bool     // Same on pointers, for large types
	changeText func(old, to S) string // text of the change; empty: no change
	check      func(c *Checks, field string, s S)
	plain      func(*S) // replaces the name of a default by the zero value; nil: the field's default has no name
}

// ValueError returns the error of the field's value in s, or "" for a valid value.
func (f Field[S]) ValueError(s S) string {
	var c Checks
	if f.check != nil {
		f.check(&c, f.Name, s)
	}
	if len(c.fields) == 0 {
		return ""
	}
	return c.fields[0].Message
}

// SameValue is Same on pointers, which avoids copies of large values.
func (f Field[S]) SameValue(a, b *S) bool { return f.same(a, b) }

// VMField is a field of a VM's spec.
type VMField struct {
	Field[VMSpec]
	// Live: whether this change takes effect in the running guest at once, despite TakesEffect; nil: never
	Live func(vm VM, to VMSpec) bool
	// Merge prepares the spec want for comparison with defined, the spec in the host's definition. Values that users
	// changed, so that want and applied differ, stay unchanged in want; all other values are copied from defined. Nil: the
	// field stays unchanged in want.
	Merge func(want *VMSpec, applied, defined VMSpec)
	diff  func(old, to VMSpec) []Change
}

// VMFields are the fields of a VM's spec that a host's definition stores or that the portal uses.
var VMFields = slices.Concat([]VMField{
	withHotPlug(VM.canHotPlugCPUs, valueField("cpus", "vCPUs", WhenNextBoot, func(s *VMSpec) *int { return &s.CPUs },
		func(n int) string { return CountWithUnit(n, "vCPU") },
		func(a, b int) string { return fmt.Sprintf("%d → %d", a, b) })),
	withHotPlug(VM.canHotPlugMemory, valueField("memoryMiB", "memory", WhenNextBoot, func(s *VMSpec) *int { return &s.MemoryMiB },
		func(n int) string { return fmt.Sprintf("%d MiB", n) },
		func(a, b int) string { return fmt.Sprintf("%d → %d MiB", a, b) })),
	valueField("firmware", "firmware", WhenPoweredOff, func(s *VMSpec) *Firmware { return &s.Firmware },
		func(f Firmware) string { return strings.ToUpper(string(f)) }, nil),
	listField("disks", "disk", WhenNever, func(s *VMSpec) *[]Disk { return &s.Disks },
		element[Disk]{key: diskKey, definition: diskKey, words: Disk.text, fields: DiskFields, takesEffect: Disk.takesEffect, live: diskGrowthText, changeText: diskChangeText}),
	listField("nics", "NIC", WhenNow, func(s *VMSpec) *[]NIC { return &s.NICs },
		element[NIC]{key: nicKey, definition: nicDefinition, words: func(n NIC) string { return strings.TrimSpace(n.MAC+" on "+nicNetworkText(n)) + nicFilterText(n) }, fields: NICFields, live: nicFilterChangeText}),
	valueField("iso", "CD-ROM", WhenNow, func(s *VMSpec) **Volref { return &s.ISO },
		func(v *Volref) string {
			if v == nil {
				return "none"
			}
			return v.Volume
		}, nil),
}, vmFields(optionalFields), VMLists)

func vmFields(all []Field[VMSpec]) []VMField {
	var out []VMField
	for _, f := range all {
		out = append(out, vmField(f))
	}
	return out
}

// FieldByName returns the field with the name.
func FieldByName(name string) (VMField, bool) {
	for _, f := range VMFields {
		if f.Name == name {
			return f, true
		}
	}
	return VMField{}, false
}

// withHotPlug sets the condition under which a running guest gets a change of the field at once.
func withHotPlug(takes func(vm VM, to VMSpec) bool, f VMField) VMField {
	f.Live = takes
	return f
}

// valueField builds a field with a single value. change returns the text of a change; nil: print both values.
func valueField[T any](name, title string, on EffectTime, at func(*VMSpec) *T, words func(T) string, change func(a, b T) string) VMField {
	return vmField(valueFieldWithEqual(name, title, on, at, valueType[T]{
		words: words, change: change, equal: func(a, b T) bool { return reflect.DeepEqual(a, b) },
	}))
}

// vmField extends the field of a spec with its diff.
func vmField(f Field[VMSpec]) VMField {
	return VMField{Field: f, diff: func(old, to VMSpec) []Change {
		if words := f.changeText(old, to); words != "" {
			return []Change{{"spec." + f.Name, f.Type + " " + words, f.TakesEffect}}
		}
		return nil
	}}
}

// valueType describes the values of a field: their texts and their equality.
type valueType[T any] struct {
	words  func(T) string
	change func(a, b T) string // formats a change of the value; nil: print both values
	equal  func(a, b T) bool
}

func (v valueType[T]) changeText(a, b T) string {
	if v.change != nil {
		return v.change(a, b)
	}
	return v.words(a) + " → " + v.words(b)
}

// valueFieldWithEqual builds a field with a single value and a custom equality.
func valueFieldWithEqual[S, T any](name, title string, on EffectTime, at func(*S) *T, v valueType[T]) Field[S] {
	get := func(s S) T { return *at(&s) }
	like := func(a, b *S) bool { return v.equal(*at(a), *at(b)) }
	same := func(a, b S) bool { return like(&a, &b) }
	return Field[S]{
		Name: name, Type: title, TakesEffect: on, Same: same, same: like,
		Words:  func(s S) string { return v.words(get(s)) },
		Value:  func(s S) any { return get(s) },
		Copy:   func(to *S, from S) { *at(to) = get(from) },
		Decode: func(to *S, value []byte) error { return decodeStrict(at(to), value) },
		changeText: func(old, to S) string {
			if same(old, to) {
				return ""
			}
			return v.changeText(get(old), get(to))
		},
	}
}

// decodeStrict decodes JSON into a new value. Absent fields become zero, unknown ones are an error.
func decodeStrict[T any](to *T, value []byte) error {
	var v T
	read := json.NewDecoder(bytes.NewReader(value))
	read.DisallowUnknownFields()
	if err := read.Decode(&v); err != nil {
		return err
	}
	*to = v
	return nil
}
