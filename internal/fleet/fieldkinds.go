package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// markPortalOnly marks a field that only the portal uses. A change takes effect at once.
func markPortalOnly(f Field[VMSpec]) Field[VMSpec] {
	f.PortalOnly = true
	return markEffectiveNow(f)
}

// rowsField builds a field whose value is an ordered list of rows. The field has a form section of its own, and its
// changes take effect at once.
func rowsField[T comparable](name, title string, at func(*VMSpec) *[]T, words func([]T) string, check func(c *Checks, field string, s VMSpec)) Field[VMSpec] {
	f := valueFieldWithEqual(name, title, WhenNow, at, valueType[[]T]{words: words, equal: slices.Equal[[]T]})
	f.Copy = func(to *VMSpec, from VMSpec) { *at(to) = slices.Clone(*at(&from)) }
	f.Default = func(s VMSpec) bool { return len(*at(&s)) == 0 }
	f.Input.Label = strings.ToUpper(title[:1]) + title[1:]
	f.check = check
	return f
}

// markOperatorOnly marks a field that only operators may set. Everyone who may change the VM may reset the field to the
// default.
func markOperatorOnly[S any](why string, f Field[S]) Field[S] {
	f.ReservedReason = why
	return f
}

// markOperatorOnlyAbove marks a number field whose values above maximum only operators may set. why is the reason, as a
// clause.
func markOperatorOnlyAbove(maximum int, why string, at func(VMSpec) int, f Field[VMSpec]) Field[VMSpec] {
	f.ReservedReason = why
	f.ReservedPaths = func(was, want VMSpec) []string {
		if n := at(want); n > maximum && n != at(was) {
			return []string{f.Name}
		}
		return nil
	}
	return f
}

// markUneditable marks a field that no edit changes. why is the reason, as a clause.
func markUneditable[S any](why string, f Field[S]) Field[S] {
	f.TakesEffect, f.FixedReason = WhenNever, why
	return f
}

// ValueText returns a value as text: an option's text, or the value with its unit.
func (in FormInput) ValueText(v string) string {
	switch {
	case in.Kind == InputFlag:
		return "on"
	case in.Unit != "":
		return v + " " + in.Unit
	}
	return in.words(v)
}

// DefaultText returns the text for an unset field; empty: the field has no default.
func (in FormInput) DefaultText() string {
	if in.Kind == InputFlag {
		return "off"
	}
	return in.words("")
}

// formField builds a field with a form input. A running guest gets a change of the field at its next start.
func formField[S, T any](name, title string, at func(*S) *T, v valueType[T], in FormInput, check func(c *Checks, field string, v T)) Field[S] {
	f := valueFieldWithEqual(name, title, WhenNextBoot, at, v)
	f.Input = in
	f.Default = func(s S) bool { var zero T; return v.equal(*at(&s), zero) }
	f.check = func(c *Checks, field string, s S) {
		if !f.Default(s) {
			check(c, field, *at(&s))
		}
	}
	return f
}

func equal[T comparable](a, b T) bool { return a == b }

// comparableType returns the type of values that == compares.
func comparableType[T comparable](words func(T) string) valueType[T] {
	return valueType[T]{words: words, equal: equal[T]}
}

// numberField builds a field with a positive number; zero is the default.
func numberField[S any](name, title string, at func(*S) *int, in FormInput, minimum, maximum int) Field[S] {
	number := valueType[int]{
		words: func(n int) string {
			switch {
			case n == 0:
				return "default"
			case in.Unit != "":
				return fmt.Sprint(n, " ", in.Unit)
			case in.CountUnit != "":
				return CountWithUnit(n, in.CountUnit)
			}
			return strconv.Itoa(n)
		},
		equal: func(a, b int) bool { return cmp.Or(a, in.Default) == cmp.Or(b, in.Default) },
	}
	return formField(name, title, at, number, in, func(c *Checks, field string, n int) {
		if n < minimum || n > maximum {
			c.Add(field, "Enter a whole number from %d to %d, or leave the field empty.", minimum, maximum)
		}
	})
}

func flagField[S any](name, title string, at func(*S) *bool, in FormInput) Field[S] {
	in.Kind = InputFlag
	words := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	return formField(name, title, at, comparableType(words), in, func(*Checks, string, bool) {})
}

func choiceField[S any](name, title string, at func(*S) *string, in FormInput) Field[S] {
	in.Kind = InputChoice
	f := formField(name, title, at, comparableType(in.words), in, func(c *Checks, field, v string) {
		if !slices.ContainsFunc(in.Options, func(o Option) bool { return o.Value == v }) {
			var all []string
			for _, o := range in.Options[1:] {
				all = append(all, o.Value)
			}
			if in.DefaultName != "" {
				all = append(all, in.DefaultName)
			}
			c.Add(field, "Choose one of %s, or leave the field empty.", strings.Join(all, ", "))
		}
	})
	if in.DefaultName == "" {
		return f
	}
	f.plain = func(s *S) {
		if *at(s) == in.DefaultName {
			*at(s) = ""
		}
	}
	decode := f.Decode
	f.Decode = func(to *S, value []byte) error {
		err := decode(to, value)
		f.plain(to)
		return err
	}
	return f
}

// resetNamedDefaults replaces the names of defaults by the zero value.
func resetNamedDefaults[S any](to *S, fields []Field[S]) {
	for _, f := range fields {
		if f.plain != nil {
			f.plain(to)
		}
	}
}

// NormalizeDefaults returns the spec with named defaults replaced by the zero value: bus "virtio" of a disk becomes
// empty.
func (s VMSpec) NormalizeDefaults() VMSpec {
	s.Disks, s.NICs = slices.Clone(s.Disks), slices.Clone(s.NICs)
	resetNamedDefaults(&s, optionalFields)
	for i := range s.Disks {
		s.Disks[i] = s.Disks[i].NormalizeDefaults()
	}
	for i := range s.NICs {
		s.NICs[i] = s.NICs[i].NormalizeDefaults()
	}
	return s
}

// NormalizeDefaults returns the disk with named defaults replaced by the zero value.
func (d Disk) NormalizeDefaults() Disk {
	resetNamedDefaults(&d, DiskFields)
	return d
}

// NormalizeDefaults returns the NIC with named defaults replaced by the zero value.
func (n NIC) NormalizeDefaults() NIC {
	resetNamedDefaults(&n, NICFields)
	return n
}

// textField builds a field for text that matches form. The input's options are proposals. wrong is the error text for
// other values.
func textField[S any](name, title string, at func(*S) *string, in FormInput, form *regexp.Regexp, wrong string) Field[S] {
	in.Kind = InputText
	words := func(v string) string { return cmp.Or(in.words(v), "default") }
	return formField(name, title, at, comparableType(words), in, func(c *Checks, field, v string) {
		if !form.MatchString(v) {
			c.Add(field, "%s", wrong)
		}
	})
}

func (in FormInput) words(v string) string {
	for _, o := range in.Options {
		if o.Value == v {
			return o.Text
		}
	}
	return v
}
