package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// When is the time at which a change of a VM takes effect.
type When string

const (
	WhenNow        When = "now"
	WhenNextBoot   When = "nextBoot" // at the running guest's next start
	WhenPoweredOff When = "powerOff" // the change is allowed only while the VM is off
	WhenNever      When = "never"    // no edit can make the change
)

// Change is one difference between a VM's current and intended state.
type Change struct {
	// JSON path: "spec.cpus", "spec.nics[1]"; for a removed element the path of its list: "spec.nics"
	Field string `json:"field"`
	Words string `json:"words"` // "vCPUs 2 → 4"
	When  When   `json:"when"`  // for the VM's current power state
}

// HasGuest reports whether the VM has a running or paused guest. Some changes take effect only when it has none.
func (vm VM) HasGuest() bool {
	return vm.Status != nil && (vm.Status.Power == Running || vm.Status.Power == Paused)
}

// Diff lists the changes of an edit from vm to to, in the order of the fields.
func (vm VM) Diff(to VM) []Change {
	var out []Change
	add := func(field, format string, args ...any) {
		out = append(out, Change{field, fmt.Sprintf(format, args...), WhenNow})
	}
	if vm.Name != to.Name {
		add("name", "name %s → %s", vm.Name, to.Name)
	}
	if !maps.Equal(vm.Labels, to.Labels) {
		add("labels", "labels")
	}
	if vm.Description != to.Description {
		add("description", "description")
	}
	for _, c := range vm.Spec.Diff(to.Spec, vm.HasGuest()) {
		switch f, _ := FieldOf(strings.TrimPrefix(c.Field, "spec.")); {
		case c.When == WhenNever && vm.cancelsGrowth(c, to), c.When == WhenNextBoot && f.Live != nil && f.Live(vm, to.Spec):
			c.When = WhenNow
		}
		out = append(out, c)
	}
	return out
}

// Diff lists the changes from s to to. on is whether the VM has a running guest. Power is not compared: jobs change
// it, not edits.
func (s VMSpec) Diff(to VMSpec, on bool) []Change {
	var out []Change
	for _, f := range VMFields {
		for _, c := range f.diff(s, to) {
			if !on && c.When != WhenNever {
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
	Name, Type string // JSON name ("memoryMiB") and name in sentences ("memory")
	Words      func(S) string
	Same       func(a, b S) bool // equality as far as a host's definition preserves the value
	Value      func(S) any       // value of the field's JSON type
	Copy       func(to *S, from S)
	Decode     func(to *S, value []byte) error // parses the JSON of Value and rejects anything else
	Input      Input                           // form input; no Section: the form has a special input
	// ReservedReason: why only operators may set the field, as a clause; empty: everyone who may change the VM
	ReservedReason string
	// ReservedPaths returns the newly set paths of a partly reserved field: "numa[0].nodes"; nil: the whole field is
	// reserved
	ReservedPaths func(was, want S) []string
	Default       func(S) bool // has the default value; nil if the form has its own input
	// FixedReason: why no edit can change the field, with the alternative, as a clause; empty: edits can, or no special
	// text
	FixedReason string
	PortalOnly  bool // only the portal uses the field, so any agent version supports it
	TakesEffect When // when a change takes effect for a running guest

	same       func(a, b *S) bool     // Same on pointers, for large types
	changeText func(old, to S) string // text of the change; empty: no change
	check      func(c *Checks, field string, s S)
	plain      func(*S) // replaces the default's name by the zero value; nil: the default has no name
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
	// Live: whether this change takes effect in the running guest at once, despite On; nil: never
	Live func(vm VM, to VMSpec) bool
	// Merge prepares the spec for a host's definition. Fields that users changed since was keep the wanted value; all
	// other fields take the value of is. Nil: the wanted value always wins.
	Merge func(want *VMSpec, was, is VMSpec)
	diff  func(old, to VMSpec) []Change
}

// VMFields are the spec's fields that are stored in a host's definition or acted on by the portal.
var VMFields = slices.Concat([]VMField{
	withLive(VM.hotPlugsCPUs, value("cpus", "vCPUs", WhenNextBoot, func(s *VMSpec) *int { return &s.CPUs },
		func(n int) string { return countOf(n, "vCPU") },
		func(a, b int) string { return fmt.Sprintf("%d → %d", a, b) })),
	withLive(VM.hotPlugsMemory, value("memoryMiB", "memory", WhenNextBoot, func(s *VMSpec) *int { return &s.MemoryMiB },
		func(n int) string { return fmt.Sprintf("%d MiB", n) },
		func(a, b int) string { return fmt.Sprintf("%d → %d MiB", a, b) })),
	value("firmware", "firmware", WhenPoweredOff, func(s *VMSpec) *Firmware { return &s.Firmware },
		func(f Firmware) string { return strings.ToUpper(string(f)) }, nil),
	list("disks", "disk", WhenNever, func(s *VMSpec) *[]Disk { return &s.Disks },
		element[Disk]{key: diskKey, definition: diskKey, words: Disk.text, fields: DiskFields, takesEffect: Disk.takesEffect, live: diskGrowthText, changeText: diskChangeText}),
	list("nics", "NIC", WhenNow, func(s *VMSpec) *[]NIC { return &s.NICs },
		element[NIC]{key: nicKey, definition: nicReported, words: func(n NIC) string { return strings.TrimSpace(n.MAC+" on "+nicOn(n)) + nicFilterText(n) }, fields: NICFields, live: nicFilterChangeText}),
	value("iso", "CD-ROM", WhenNow, func(s *VMSpec) **Volref { return &s.ISO },
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

// FieldOf returns the field with the name.
func FieldOf(name string) (VMField, bool) {
	for _, f := range VMFields {
		if f.Name == name {
			return f, true
		}
	}
	return VMField{}, false
}

// withLive sets the condition under which a change takes effect in a running guest at once.
func withLive(takes func(vm VM, to VMSpec) bool, f VMField) VMField {
	f.Live = takes
	return f
}

// value builds a field with a single value. change formats a change; nil: both values as text.
func value[T any](name, title string, on When, at func(*VMSpec) *T, words func(T) string, change func(a, b T) string) VMField {
	if change == nil {
		change = func(a, b T) string { return words(a) + " → " + words(b) }
	}
	return vmField(valueAs(name, title, on, at, words, change, func(a, b T) bool { return reflect.DeepEqual(a, b) }))
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

// valueAs builds a field with a single value and a custom equality.
func valueAs[S, T any](name, title string, on When, at func(*S) *T, words func(T) string, change func(a, b T) string, equal func(a, b T) bool) Field[S] {
	get := func(s S) T { return *at(&s) }
	like := func(a, b *S) bool { return equal(*at(a), *at(b)) }
	same := func(a, b S) bool { return like(&a, &b) }
	return Field[S]{
		Name: name, Type: title, TakesEffect: on, Same: same, same: like,
		Words:  func(s S) string { return words(get(s)) },
		Value:  func(s S) any { return get(s) },
		Copy:   func(to *S, from S) { *at(to) = get(from) },
		Decode: func(to *S, value []byte) error { return decodeStrict(at(to), value) },
		changeText: func(old, to S) string {
			if same(old, to) {
				return ""
			}
			return change(get(old), get(to))
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

// element describes the elements of a list: their identity, texts and fields.
type element[T any] struct {
	key        func(T) string // identity; empty: a new element
	definition func(T) string // representation in a host's definition, without its fields
	words      func(T) string // text as pages show it
	fields     []Field[T]     // fields that an edit can change
	// takesEffect returns when an added or removed element takes effect; nil: as the list does
	takesEffect func(T) When
	// live formats a change that takes effect at once; empty: the change must wait. nil: all changes must wait
	live func(old, to T) string
	// changeText formats any other change; nil: both elements as text
	changeText func(old, to T) string
}

func (e element[T]) changeOf(old, to T) string {
	if e.changeText != nil {
		return e.changeText(old, to)
	}
	return e.words(old) + " → " + e.words(to)
}

// fieldsChanged returns the changed fields as text and when they take effect. rest is old with the fields of to.
func (e element[T]) fieldsChanged(old, to T) (rest T, words string, when When) {
	rest, when = old, WhenNow
	var all []string
	for _, f := range e.fields {
		if change := f.changeText(old, to); change != "" {
			all = append(all, f.Type+" "+change)
			if f.TakesEffect != WhenNow {
				when = f.TakesEffect
			}
		}
		f.Copy(&rest, to)
	}
	return rest, strings.Join(all, ", "), when
}

// fullDefinition returns the element's complete representation in a host's definition.
func (e element[T]) fullDefinition(v T) string { return e.definition(v) + FieldsXML(e.fields, v) }

// FieldsXML returns a canonical text of the non-default fields: equal texts mean equal definitions on a host.
func FieldsXML[S any](fields []Field[S], v S) string {
	var out strings.Builder
	for _, f := range fields {
		if !f.Default(v) {
			fmt.Fprintf(&out, " %s=%s", f.Name, f.Words(v))
		}
	}
	return out.String()
}

// list builds a field with several elements in no particular order. A replaced element takes effect at the next boot,
// even where added and removed ones take effect at once.
func list[T any](name, title string, on When, at func(*VMSpec) *[]T, e element[T]) VMField {
	get := func(s VMSpec) []T { return *at(&s) }
	index := func(all []T, v T) int {
		for i, o := range all {
			if k := e.key(v); k != "" && e.key(o) == k {
				return i
			}
		}
		return -1
	}
	replaced := on
	if on == WhenNow {
		replaced = WhenNextBoot
	}
	if e.takesEffect == nil {
		e.takesEffect = func(T) When { return on }
	}
	diff := func(old, to VMSpec) (out []Change) {
		add := func(at string, when When, words string) {
			out = append(out, Change{"spec." + name + at, title + " " + words, when})
		}
		was, stay := get(old), map[int]bool{}
		for i, v := range get(to) {
			k, at := index(was, v), fmt.Sprintf("[%d]", i)
			if k < 0 || stay[k] {
				add(at, e.takesEffect(v), e.words(v)+" added")
				stay[k] = true
				continue
			}
			stay[k] = true
			rest, fields, when := e.fieldsChanged(was[k], v)
			if fields != "" {
				add(at, when, e.words(v)+": "+fields)
			}
			switch {
			case reflect.DeepEqual(rest, v):
			case e.live != nil && e.live(rest, v) != "":
				add(at, WhenNow, e.live(rest, v))
			default:
				add(at, replaced, e.changeOf(rest, v))
			}
		}
		for k, v := range was {
			if !stay[k] {
				add("", e.takesEffect(v), e.words(v)+" removed")
			}
		}
		return out
	}
	like := func(a, b *VMSpec) bool {
		if len(*at(a)) != len(*at(b)) {
			return false
		}
		n := map[string]int{}
		for _, v := range *at(a) {
			n[e.fullDefinition(v)]++
		}
		for _, v := range *at(b) {
			n[e.fullDefinition(v)]--
		}
		for _, more := range n {
			if more != 0 {
				return false
			}
		}
		return true
	}
	return VMField{diff: diff, Field: Field[VMSpec]{
		Name: name, Type: title + "s", TakesEffect: on,
		Same: func(a, b VMSpec) bool { return like(&a, &b) }, same: like,
		Words: func(s VMSpec) string {
			var all []string
			for _, v := range get(s) {
				all = append(all, e.words(v)+e.nonDefaultText(v))
			}
			return cmp.Or(strings.Join(all, ", "), "none")
		},
		Value:  func(s VMSpec) any { return append([]T{}, get(s)...) }, // JSON needs [] for an empty list, not null
		Copy:   func(to *VMSpec, from VMSpec) { *at(to) = slices.Clone(get(from)) },
		Decode: func(to *VMSpec, value []byte) error { return decodeStrict(at(to), value) },
	}}
}

// nonDefaultText returns the non-default fields of the element as text in parentheses.
func (e element[T]) nonDefaultText(v T) string {
	var all []string
	for _, f := range e.fields {
		if !f.Default(v) {
			all = append(all, f.Type+" "+f.Words(v))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

func diskKey(d Disk) string { return string(d.PoolID) + "/" + d.Volume }

func nicKey(n NIC) string { return strings.ToLower(n.MAC) }

func nicReported(n NIC) string {
	return nicKey(n) + " " + nicOn(n) + " " + n.filterReported() + fmt.Sprint(n.DefaultGroups, n.DefaultAntiSpoofing)
}

func nicOn(n NIC) string {
	if n.Bridge != "" {
		return "bridge " + n.Bridge
	}
	if n.PortGroup != "" {
		return "network " + n.Network + ", port group " + n.PortGroup
	}
	return "network " + n.Network
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
