package kit

import (
	"maps"
	"slices"
	"strings"
)

// Errors says what is wrong with a form: one sentence for it as a whole, and one a field by the field's JSON path.
type Errors struct {
	Form   string
	Fields map[string]string
}

// At is the sentence for a field; empty where nothing is wrong with it.
func (e Errors) At(path string) string { return e.Fields[path] }

// Under is the sentence for a field, or for the first by name of those below it.
func (e Errors) Under(path string) string {
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

// All are the sentences for fields, by the fields' names.
func (e Errors) All() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		out = append(out, e.Fields[name])
	}
	return out
}

// Any reports whether anything is wrong.
func (e Errors) Any() bool { return e.Form != "" || len(e.Fields) > 0 }
