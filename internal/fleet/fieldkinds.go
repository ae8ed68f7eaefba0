package fleet

import (
	"slices"
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
