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

// When says from when on a change of a VM counts.
type When string

const (
	Now      When = "now"
	NextBoot When = "nextBoot" // a running guest gets it at its next start
	PowerOff When = "powerOff" // it is made only while the VM is off
	Never    When = "never"    // no edit makes it
)

// Change is one difference between what a VM is and what it shall be.
type Change struct {
	Field string `json:"field"` // the JSON path: "spec.cpus", "spec.nics[1]"; of what is taken out, the list's: "spec.nics"
	Words string `json:"words"` // "vCPUs 2 → 4"
	When  When   `json:"when"`  // for the VM in the power that it has
}

// On reports whether there is a guest that changes may have to wait for.
func (vm VM) On() bool {
	return vm.Status != nil && (vm.Status.Power == Running || vm.Status.Power == Paused)
}

// Diff lists what an edit of the VM to to changes, in the order of its fields.
func (vm VM) Diff(to VM) []Change {
	var out []Change
	add := func(field, format string, args ...any) {
		out = append(out, Change{field, fmt.Sprintf(format, args...), Now})
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
	for _, c := range vm.Spec.Diff(to.Spec, vm.On()) {
		switch f, _ := FieldOf(strings.TrimPrefix(c.Field, "spec.")); {
		case c.When == Never && vm.takesGrowthBack(c, to), c.When == NextBoot && f.Live != nil && f.Live(vm, to.Spec):
			c.When = Now
		}
		out = append(out, c)
	}
	return out
}

// Diff lists what differs in the spec to, for a VM whose guest is on or not. Power is no part of it: it is ordered, not edited.
func (s VMSpec) Diff(to VMSpec, on bool) []Change {
	var out []Change
	for _, f := range VMFields {
		for _, c := range f.diff(s, to) {
			if !on && c.When != Never {
				c.When = Now
			}
			out = append(out, c)
		}
	}
	return out
}

// Field is all that is known of one field of an S: its words and refusals, what a form asks, and how an agent tells a person's change
// from one that somebody made on the host.
type Field[S any] struct {
	Name, Type string // "memoryMiB" in JSON, "memory" in a sentence
	Words      func(S) string
	Same       func(a, b S) bool // as far as a definition on a host can tell
	Value      func(S) any       // of the field's JSON type
	Copy       func(to *S, from S)
	Take       func(to *S, value []byte) error // reads what Value is as JSON, and nothing else
	Input      Input                           // how a form asks for it; no section: otherwise
	Reserved   string                          // why only who runs the hosts may choose it, as a clause; empty: who may change the VM may
	// Holds is, of a field of which Reserved speaks in part, where that part is newly chosen: "numa[0].nodes"; nil: it speaks of all.
	Holds   func(was, want S) []string
	Default func(S) bool // it is as a new one has it; nil for those that a form asks for otherwise
	Fixed   string       // why no edit changes it, as a clause and what to do instead; empty: an edit does, or it says nothing of its own
	Portal  bool         // no host acts by it, so an agent that does not know it is none too old
	On      When         // when a change takes effect for a guest that is on

	same   func(a, b *S) bool     // Same, of what is large
	became func(old, to S) string // what becomes what, in words; empty: nothing does
	check  func(c *Checks, field string, s S)
	plain  func(*S) // replaces the default's name by the default; nil: the default has no name
}

// Fault says what is wrong with the field's value in s; empty: nothing is.
func (f Field[S]) Fault(s S) string {
	var c Checks
	if f.check != nil {
		f.check(&c, f.Name, s)
	}
	if len(c.fields) == 0 {
		return ""
	}
	return c.fields[0].Message
}

// Like is Same without copies of what is large.
func (f Field[S]) Like(a, b *S) bool { return f.same(a, b) }

// VMField is a field of a VM's spec.
type VMField struct {
	Field[VMSpec]
	Live func(vm VM, to VMSpec) bool // whether this change takes effect at once in the guest that is on, against On; nil: never
	// Merge makes of what is wanted what is to be written into a definition: what people changed since it was as in was, and all else as it is; nil: all of it.
	Merge func(want *VMSpec, was, is VMSpec)
	diff  func(old, to VMSpec) []Change
}

// VMFields are the fields of a spec that a host's definition holds.
var VMFields = slices.Concat([]VMField{
	live(VM.takesCPUs, value("cpus", "vCPUs", NextBoot, func(s *VMSpec) *int { return &s.CPUs },
		func(n int) string { return count(n, "vCPU") },
		func(a, b int) string { return fmt.Sprintf("%d → %d", a, b) })),
	live(VM.takesMemory, value("memoryMiB", "memory", NextBoot, func(s *VMSpec) *int { return &s.MemoryMiB },
		func(n int) string { return fmt.Sprintf("%d MiB", n) },
		func(a, b int) string { return fmt.Sprintf("%d → %d MiB", a, b) })),
	value("firmware", "firmware", PowerOff, func(s *VMSpec) *Firmware { return &s.Firmware },
		func(f Firmware) string { return strings.ToUpper(string(f)) }, nil),
	list("disks", "disk", Never, func(s *VMSpec) *[]Disk { return &s.Disks },
		element[Disk]{key: diskKey, told: diskKey, words: Disk.words, fields: DiskFields, comes: Disk.comes, live: diskGrown, became: diskBecame}),
	list("nics", "network card", Now, func(s *VMSpec) *[]NIC { return &s.NICs },
		element[NIC]{key: nicKey, told: nicReported, words: func(n NIC) string { return strings.TrimSpace(n.MAC+" on "+nicOn(n)) + nicFiltered(n) }, fields: NICFields, live: nicRefiltered}),
	value("iso", "CD-ROM", Now, func(s *VMSpec) **Volref { return &s.ISO },
		func(v *Volref) string {
			if v == nil {
				return "none"
			}
			return v.Volume
		}, nil),
}, wholes(partFields), VMLists)

func wholes(all []Field[VMSpec]) []VMField {
	var out []VMField
	for _, f := range all {
		out = append(out, whole(f))
	}
	return out
}

// FieldOf is the field of that name.
func FieldOf(name string) (VMField, bool) {
	for _, f := range VMFields {
		if f.Name == name {
			return f, true
		}
	}
	return VMField{}, false
}

// live is a field of which some changes take effect at once in a guest that is on.
func live(so func(vm VM, to VMSpec) bool, f VMField) VMField {
	f.Live = so
	return f
}

// value is a field that holds one thing. change says what becomes what; nil: the words of both.
func value[T any](name, noun string, on When, at func(*VMSpec) *T, words func(T) string, change func(a, b T) string) VMField {
	if change == nil {
		change = func(a, b T) string { return words(a) + " → " + words(b) }
	}
	return whole(valueAs(name, noun, on, at, words, change, func(a, b T) bool { return reflect.DeepEqual(a, b) }))
}

// whole is the field of a spec.
func whole(f Field[VMSpec]) VMField {
	return VMField{Field: f, diff: func(old, to VMSpec) []Change {
		if words := f.became(old, to); words != "" {
			return []Change{{"spec." + f.Name, f.Type + " " + words, f.On}}
		}
		return nil
	}}
}

// valueAs is a field that holds one thing, where other values mean the same, too.
func valueAs[S, T any](name, noun string, on When, at func(*S) *T, words func(T) string, change func(a, b T) string, equal func(a, b T) bool) Field[S] {
	get := func(s S) T { return *at(&s) }
	like := func(a, b *S) bool { return equal(*at(a), *at(b)) }
	same := func(a, b S) bool { return like(&a, &b) }
	return Field[S]{
		Name: name, Type: noun, On: on, Same: same, same: like,
		Words: func(s S) string { return words(get(s)) },
		Value: func(s S) any { return get(s) },
		Copy:  func(to *S, from S) { *at(to) = get(from) },
		Take:  func(to *S, value []byte) error { return take(at(to), value) },
		became: func(old, to S) string {
			if same(old, to) {
				return ""
			}
			return change(get(old), get(to))
		},
	}
}

// take reads JSON that a host wrote; what it does not say is nothing.
func take[T any](to *T, value []byte) error {
	var v T
	read := json.NewDecoder(bytes.NewReader(value))
	read.DisallowUnknownFields()
	if err := read.Decode(&v); err != nil {
		return err
	}
	*to = v
	return nil
}

// element is how the elements of a list are told apart.
type element[T any] struct {
	key    func(T) string // which one it is; empty: a new one
	told   func(T) string // what a definition on a host tells of it, but for its fields
	words  func(T) string // for people
	fields []Field[T]     // what an edit changes of one that stays
	// comes is from when on one that is added or removed is there or gone; nil: as the list says
	comes func(T) When
	// live is what becomes of one that stays, in words, where that takes effect at once; empty: it does not. nil: it never does
	live func(old, to T) string
	// became is what becomes of one that stays otherwise; nil: its words, then and now
	became func(old, to T) string
}

func (e element[T]) change(old, to T) string {
	if e.became != nil {
		return e.became(old, to)
	}
	return e.words(old) + " → " + e.words(to)
}

// fieldsChanged is what an edit changes of the fields of one that stays, and from when on; rest is the element with them as they are to be.
func (e element[T]) fieldsChanged(old, to T) (rest T, words string, when When) {
	rest, when = old, Now
	var all []string
	for _, f := range e.fields {
		if became := f.became(old, to); became != "" {
			all = append(all, f.Type+" "+became)
			if f.On != Now {
				when = f.On
			}
		}
		f.Copy(&rest, to)
	}
	return rest, strings.Join(all, ", "), when
}

// tells is all that a definition on a host tells of it.
func (e element[T]) tells(v T) string { return e.told(v) + FieldsXML(e.fields, v) }

// FieldsXML is what a definition on a host tells of fields: equal where it tells the same.
func FieldsXML[S any](fields []Field[S], v S) string {
	var out strings.Builder
	for _, f := range fields {
		if !f.Default(v) {
			fmt.Fprintf(&out, " %s=%s", f.Name, f.Words(v))
		}
	}
	return out.String()
}

// list is a field that holds many, in an order that means nothing. What takes the place of one that stays takes effect at the
// next boot, where others come and go at once.
func list[T any](name, noun string, on When, at func(*VMSpec) *[]T, e element[T]) VMField {
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
	if on == Now {
		replaced = NextBoot
	}
	if e.comes == nil {
		e.comes = func(T) When { return on }
	}
	diff := func(old, to VMSpec) (out []Change) {
		add := func(at string, when When, words string) {
			out = append(out, Change{"spec." + name + at, noun + " " + words, when})
		}
		was, stay := get(old), map[int]bool{}
		for i, v := range get(to) {
			k, at := index(was, v), fmt.Sprintf("[%d]", i)
			if k < 0 || stay[k] {
				add(at, e.comes(v), e.words(v)+" added")
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
				add(at, Now, e.live(rest, v))
			default:
				add(at, replaced, e.change(rest, v))
			}
		}
		for k, v := range was {
			if !stay[k] {
				add("", e.comes(v), e.words(v)+" removed")
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
			n[e.tells(v)]++
		}
		for _, v := range *at(b) {
			n[e.tells(v)]--
		}
		for _, more := range n {
			if more != 0 {
				return false
			}
		}
		return true
	}
	return VMField{diff: diff, Field: Field[VMSpec]{
		Name: name, Type: noun + "s", On: on,
		Same: func(a, b VMSpec) bool { return like(&a, &b) }, same: like,
		Words: func(s VMSpec) string {
			var all []string
			for _, v := range get(s) {
				all = append(all, e.words(v)+e.set(v))
			}
			return cmp.Or(strings.Join(all, ", "), "none")
		},
		Value: func(s VMSpec) any { return append([]T{}, get(s)...) }, // in JSON none is [], not null
		Copy:  func(to *VMSpec, from VMSpec) { *at(to) = slices.Clone(get(from)) },
		Take:  func(to *VMSpec, value []byte) error { return take(at(to), value) },
	}}
}

// set are its fields that are not as usual, in words, for brackets behind its own.
func (e element[T]) set(v T) string {
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
