package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"quantix/internal/fleet"
)

// mergePatch is a JSON merge patch (RFC 7396) of a T: omitted fields stay, null removes a field, and a list replaces
// the old list.
type mergePatch[T any] struct{ text []byte }

// UnmarshalJSON keeps the patch's original text, because an omitted field and a null field differ in a patch.
func (p *mergePatch[T]) UnmarshalJSON(text []byte) error {
	p.text = slices.Clone(text)
	return nil
}

// MarshalJSON returns the patch's original text. The Idempotency-Key check compares requests by this text.
func (p mergePatch[T]) MarshalJSON() ([]byte, error) { return p.text, nil }

// Schema describes a T whose fields may all be omitted or null.
func (mergePatch[T]) Schema(r huma.Registry) *huma.Schema {
	return mergePatchSchema(r, r.Schema(reflect.TypeFor[T](), false, ""))
}

func mergePatchSchema(r huma.Registry, of *huma.Schema) *huma.Schema {
	for of.Ref != "" {
		of = r.SchemaFromRef(of.Ref)
	}
	s := *of
	s.Required, s.Properties = nil, maps.Clone(of.Properties)
	for name, field := range s.Properties {
		s.Properties[name] = nullableSchema(mergePatchSchema(r, field))
	}
	if values, ok := of.AdditionalProperties.(*huma.Schema); ok {
		s.AdditionalProperties = nullableSchema(mergePatchSchema(r, values))
	}
	return &s
}

func nullableSchema(s *huma.Schema) *huma.Schema {
	s.Nullable = true
	return s
}

// applyTo returns the T that results from applying the patch to old.
func (p mergePatch[T]) applyTo(old T) (T, error) {
	var out T
	before, err := json.Marshal(old)
	if err != nil {
		return out, fmt.Errorf("encode the object to patch: %w", err)
	}
	after, err := mergePatchText(before, p.text)
	if err == nil {
		read := json.NewDecoder(bytes.NewReader(after))
		read.DisallowUnknownFields()
		err = read.Decode(&out)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		var c fleet.Checks
		c.Add(wrong.Field, invalidValueText)
		return out, c.Err()
	}
	if err != nil {
		return out, fleet.Errorf(fleet.Malformed, "The body is not a valid JSON merge patch of this object: %v.", err)
	}
	return out, nil
}

// mergePatchText applies the patch to old, in time linear in the size of the patch. The common Go library for merge
// patches would need quadratic time.
func mergePatchText(old, patch []byte) ([]byte, error) {
	before, err := decodeJSON(old)
	if err != nil {
		return nil, err
	}
	change, err := decodeJSON(patch)
	if err != nil {
		return nil, err
	}
	return json.Marshal(mergePatchValues(before, change))
}

// decodeJSON decodes a JSON document. It returns numbers as json.Number, so that large numbers stay exact.
func decodeJSON(text []byte) (out any, err error) {
	read := json.NewDecoder(bytes.NewReader(text))
	read.UseNumber()
	return out, read.Decode(&out)
}

func mergePatchValues(old, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := old.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, value := range change {
		if value == nil {
			delete(out, name)
			continue
		}
		out[name] = mergePatchValues(out[name], value)
	}
	return out
}

// IfMatchHeader holds the If-Match header: a generation, plain or as an ETag.
type IfMatchHeader struct {
	IfMatch string `header:"If-Match" doc:"The generation that the change applies to; refused with 409 if the current one differs"`
}

func (m IfMatchHeader) generation() (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(m.IfMatch), "W/"), `"`)
	if text == "" || text == "*" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fleet.Errorf(fleet.Malformed, "The If-Match header must be a generation, such as \"If-Match: 3\".")
	}
	return n, nil
}

func etag(generation int64) string { return `"` + strconv.FormatInt(generation, 10) + `"` }

// maxPatchTries is the maximum number of attempts to apply a patch while concurrent changes interfere.
const maxPatchTries = 5

// retryPatch repeats do if another change was written between the read and the write of do. With an If-Match header,
// do runs only once.
func retryPatch[T any](m IfMatchHeader, do func(generation int64) (T, error)) (T, error) {
	wanted, err := m.generation()
	if err != nil {
		var zero T
		return zero, err
	}
	for try := 1; ; try++ {
		out, err := do(wanted)
		if wanted != 0 || try == maxPatchTries || fleet.CodeOf(err) != fleet.Conflict {
			return out, err
		}
	}
}
