package fleet

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// element describes the elements of a list: their identity, texts and fields.
type element[T any] struct {
	key        func(T) string // identity; empty: a new element
	definition func(T) string // representation in a host's definition, without its fields
	words      func(T) string // text as pages show it
	fields     []Field[T]     // fields that an edit can change
	// takesEffect returns when an added or removed element takes effect; nil: at the same time as changes of the list
	takesEffect func(T) EffectTime
	// live returns the text of an element's change that takes effect at once, or empty if the change waits for the next
	// boot. Nil: every change waits.
	live func(old, to T) string
	// changeText returns the text of a change that neither fields nor live cover; nil: print the old and the new
	// element
	changeText func(old, to T) string
	// check adds the errors of element v to c; at is the path of v in the spec; vmListField requires check
	check func(c *Checks, at string, v T)
}

func (e element[T]) changeDescription(old, to T) string {
	if e.changeText != nil {
		return e.changeText(old, to)
	}
	return e.words(old) + " → " + e.words(to)
}

// changedFields returns the changed fields as text and when they take effect. rest is the old element with the new
// values of these fields.
func (e element[T]) changedFields(old, to T) (rest T, words string, when EffectTime) {
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
func (e element[T]) fullDefinition(v T) string { return e.definition(v) + CanonicalFields(e.fields, v) }

// CanonicalFields returns a canonical text of the non-default fields. Equal texts mean equal definitions on a host.
func CanonicalFields[S any](fields []Field[S], v S) string {
	var out strings.Builder
	for _, f := range fields {
		if !f.Default(v) {
			fmt.Fprintf(&out, " %s=%s", f.Name, f.Words(v))
		}
	}
	return out.String()
}

// listField builds a field with several elements in no particular order. A change of an element takes effect at the
// next boot, even where adding and removing elements takes effect at once.
func listField[T any](name, title string, on EffectTime, at func(*VMSpec) *[]T, e element[T]) VMField {
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
		e.takesEffect = func(T) EffectTime { return on }
	}
	diff := func(old, to VMSpec) (out []Change) {
		add := func(at string, when EffectTime, words string) {
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
			rest, fields, when := e.changedFields(was[k], v)
			if fields != "" {
				add(at, when, e.words(v)+": "+fields)
			}
			switch {
			case reflect.DeepEqual(rest, v):
			case e.live != nil && e.live(rest, v) != "":
				add(at, WhenNow, e.live(rest, v))
			default:
				add(at, replaced, e.changeDescription(rest, v))
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

func nicDefinition(n NIC) string {
	return nicKey(n) + " " + nicNetworkText(n) + " " + n.reportedFilterText() + fmt.Sprint(n.DefaultGroups, n.DefaultAntiSpoofing)
}

func nicNetworkText(n NIC) string {
	if n.Bridge != "" {
		return "bridge " + n.Bridge
	}
	if n.PortGroup != "" {
		return "network " + n.Network + ", port group " + n.PortGroup
	}
	return "network " + n.Network
}

// CountWithUnit returns the number with its unit: "1 disk", "2 disks".
func CountWithUnit(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
