package kit

import (
	"maps"
	"slices"
	"strings"
)

// Errors are the errors of a form: one sentence for the whole form, and one for each field by its JSON path.
type Errors struct {
	Form   string
	Fields map[string]string
}

// At is the error of a field; empty: none.
func (e Errors) At(path string) string { return e.Fields[path] }

// ForFieldOrBelow is the error of a field or, without one, the first error of the fields nested in it, by name.
func (e Errors) ForFieldOrBelow(path string) string {
	if text := e.Fields[path]; text != "" {
		return text
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if strings.HasPrefix(name, path+".") || strings.HasPrefix(name, path+"[") {
			return e.Fields[name]
		}
	}
	return ""
}

// FieldErrors are the errors of all fields, sorted by field name.
func (e Errors) FieldErrors() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		out = append(out, e.Fields[name])
	}
	return out
}

// Any reports whether there is any error.
func (e Errors) Any() bool { return e.Form != "" || len(e.Fields) > 0 }
