package web

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"quantix/internal/fleet"
)

// patch is a field of a JSON merge patch: left out, null, or a value.
type patch[T any] struct {
	set, null bool
	value     T
}

// UnmarshalJSON is called only where the field is there.
func (p *patch[T]) UnmarshalJSON(text []byte) error {
	p.set, p.null = true, string(text) == "null"
	if p.null {
		return nil
	}
	return json.Unmarshal(text, &p.value)
}

// Schema describes the value, which may also be null.
func (patch[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref == "" {
		s.Nullable = true
	}
	return &s
}

// must notes a null where the field cannot be taken away, and gives the new value or nil.
func (p patch[T]) must(c *fleet.Checks, field string) *T {
	switch {
	case p.null:
		c.Add(field, "This field cannot be removed. Give a value, or leave it out.")
		return nil
	case !p.set:
		return nil
	}
	return &p.value
}

// orZero is the new value, the zero value for null, or nil.
func (p patch[T]) orZero() *T {
	if !p.set {
		return nil
	}
	return &p.value // untouched by null
}

// labelPatch is a merge patch of labels: null takes a label away.
type labelPatch = patch[map[string]*string]

// labelsWith is the whole new set of labels, or nil where nothing is said about them.
func labelsWith(p labelPatch, old map[string]string) map[string]string {
	if !p.set {
		return nil
	}
	merged := map[string]string{}
	if p.null {
		return merged
	}
	maps.Copy(merged, old)
	for k, v := range p.value {
		if v == nil {
			delete(merged, k)
		} else {
			merged[k] = *v
		}
	}
	return merged
}

// MatchHeader is the generation of an If-Match header, plain or as an ETag; 0 where there is none.
type MatchHeader struct {
	IfMatch string `header:"If-Match" doc:"The generation that the change is meant for; at another one it is refused (409)"`
}

func (m MatchHeader) generation() (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(m.IfMatch), "W/"), `"`)
	if text == "" || text == "*" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fleet.Errorf(fleet.Malformed, "If-Match takes a generation, such as \"If-Match: 3\".")
	}
	return n, nil
}

func etag(generation int64) string { return `"` + strconv.FormatInt(generation, 10) + `"` }

// patchTries is how often a merge with what is there now is tried while others change it too.
const patchTries = 5

// retryPatch runs do again while somebody else came between its look and its change. A caller's own If-Match is judged once.
func retryPatch[T any](m MatchHeader, do func(generation int64) (T, error)) (T, error) {
	wanted, err := m.generation()
	if err != nil {
		var zero T
		return zero, err
	}
	for try := 1; ; try++ {
		out, err := do(wanted)
		if wanted != 0 || try == patchTries || fleet.CodeOf(err) != fleet.Conflict {
			return out, err
		}
	}
}
