package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ofPortal is a field by which the portal alone acts, at once.
func ofPortal(f Field[VMSpec]) Field[VMSpec] {
	f.Portal = true
	return atOnce(f)
}

// rowsOf is a field that holds rows, in their order, which a form asks for in a section of its own and which count at once.
func rowsOf[T comparable](name, noun string, at func(*VMSpec) *[]T, words func([]T) string, check func(c *Checks, field string, s VMSpec)) Field[VMSpec] {
	f := valueAs(name, noun, Now, at, words, func(a, b []T) string { return words(a) + " → " + words(b) }, slices.Equal[[]T])
	f.Copy = func(to *VMSpec, from VMSpec) { *at(to) = slices.Clone(*at(&from)) }
	f.Default = func(s VMSpec) bool { return len(*at(&s)) == 0 }
	f.Input.Label = strings.ToUpper(noun[:1]) + noun[1:]
	f.check = check
	return f
}

// reserved is a field that only who runs the hosts may choose; who may change the VM may put it back to the usual.
func reserved[S any](why string, f Field[S]) Field[S] {
	f.Reserved = why
	return f
}

// reservedAbove is a number of which only who runs the hosts may choose more than most; why is a clause.
func reservedAbove(most int, why string, at func(VMSpec) int, f Field[VMSpec]) Field[VMSpec] {
	f.Reserved = why
	f.Holds = func(was, want VMSpec) []string {
		if n := at(want); n > most && n != at(was) {
			return []string{f.Name}
		}
		return nil
	}
	return f
}

// fixed is a field that no edit changes; why is a clause.
func fixed[S any](why string, f Field[S]) Field[S] {
	f.On, f.Fixed = Never, why
	return f
}

// Says is a value in words: one of the options', or itself with its unit.
func (in Input) Says(v string) string {
	switch {
	case in.Kind == InputFlag:
		return "on"
	case in.Unit != "":
		return v + " " + in.Unit
	}
	return in.words(v)
}

// SaysDefault is Says of a field that is not set; empty: it has no value then.
func (in Input) SaysDefault() string {
	if in.Kind == InputFlag {
		return "off"
	}
	return in.words("")
}

// asked is a field that a form asks for; a guest that is on gets it at its next start.
func asked[S any, T comparable](name, noun string, at func(*S) *T, words func(T) string, in Input, equal func(a, b T) bool, check func(c *Checks, field string, v T)) Field[S] {
	f := valueAs(name, noun, NextBoot, at, words, func(a, b T) string { return words(a) + " → " + words(b) }, equal)
	f.Input = in
	f.Default = func(s S) bool { var zero T; return equal(*at(&s), zero) }
	f.check = func(c *Checks, field string, s S) {
		if !f.Default(s) {
			check(c, field, *at(&s))
		}
	}
	return f
}

func equal[T comparable](a, b T) bool { return a == b }

// number is one that is above zero; zero: the default.
func number[S any](name, noun, unit string, at func(*S) *int, in Input, least, most int) Field[S] {
	return asked(name, noun, at, func(n int) string {
		switch {
		case n == 0:
			return "default"
		case unit == "":
			return strconv.Itoa(n)
		case in.Unit != "":
			return fmt.Sprint(n, " ", in.Unit)
		}
		return count(n, unit)
	}, in, func(a, b int) bool { return cmp.Or(a, in.Usual) == cmp.Or(b, in.Usual) }, func(c *Checks, field string, n int) {
		if n < least || n > most {
			c.Add(field, "Give a whole number from %d to %d, or nothing.", least, most)
		}
	})
}

func flag[S any](name, noun string, at func(*S) *bool, in Input) Field[S] {
	in.Kind = InputFlag
	return asked(name, noun, at, func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}, in, equal, func(*Checks, string, bool) {})
}

func choice[S any](name, noun string, at func(*S) *string, in Input) Field[S] {
	in.Kind = InputChoice
	f := asked(name, noun, at, in.words, in, equal, func(c *Checks, field, v string) {
		if !slices.ContainsFunc(in.Options, func(o Option) bool { return o.Value == v }) {
			var all []string
			for _, o := range in.Options[1:] {
				all = append(all, o.Value)
			}
			if in.Named != "" {
				all = append(all, in.Named)
			}
			c.Add(field, "Choose one of %s, or nothing.", strings.Join(all, ", "))
		}
	})
	if in.Named == "" {
		return f
	}
	f.plain = func(s *S) {
		if *at(s) == in.Named {
			*at(s) = ""
		}
	}
	taken := f.Take
	f.Take = func(to *S, value []byte) error {
		err := taken(to, value)
		f.plain(to)
		return err
	}
	return f
}

// plainFields replaces the names of defaults by the defaults.
func plainFields[S any](to *S, fields []Field[S]) {
	for _, f := range fields {
		if f.plain != nil {
			f.plain(to)
		}
	}
}

// Plain is the spec with the defaults themselves where they are named: a disk's bus "virtio" is the empty one.
func (s VMSpec) Plain() VMSpec {
	s.Disks, s.NICs = slices.Clone(s.Disks), slices.Clone(s.NICs)
	plainFields(&s, partFields)
	for i := range s.Disks {
		s.Disks[i] = s.Disks[i].Plain()
	}
	for i := range s.NICs {
		s.NICs[i] = s.NICs[i].Plain()
	}
	return s
}

// Plain is VMSpec.Plain for a disk.
func (d Disk) Plain() Disk {
	plainFields(&d, DiskFields)
	return d
}

// Plain is VMSpec.Plain for a NIC.
func (n NIC) Plain() NIC {
	plainFields(&n, NICFields)
	return n
}

// text is a choice that takes other words of that form, too.
func text[S any](name, noun string, at func(*S) *string, in Input, form *regexp.Regexp, wrong string) Field[S] {
	in.Kind = InputText
	return asked(name, noun, at, func(v string) string { return cmp.Or(in.words(v), "default") }, in, equal, func(c *Checks, field, v string) {
		if !form.MatchString(v) {
			c.Add(field, "%s", wrong)
		}
	})
}

func (in Input) words(v string) string {
	for _, o := range in.Options {
		if o.Value == v {
			return o.Text
		}
	}
	return v
}
