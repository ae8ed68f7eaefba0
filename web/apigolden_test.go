package web_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"quantix/internal/testkit/golden"
)

// TestAPIDescriptionMatchesGoldenFile compares every operation, parameter and field of the OpenAPI description with a
// golden file.
func TestAPIDescriptionMatchesGoldenFile(t *testing.T) {
	t.Parallel()
	newPortal(t) // reads the OpenAPI description into servedDocument
	golden.JSON(t, "testdata/api.json", servedDocument.doc.exampleValues())
}

// exampleValues returns the operations and schemas of the document as example values. It contains each schema only
// once.
func (d *openAPIDocument) exampleValues() map[string]any {
	out := map[string]any{}
	for at, methods := range d.Paths {
		for method, operation := range methods {
			parameters, answers := map[string]any{}, map[string]any{}
			for _, p := range operation.Parameters {
				parameters[p.In+" "+p.Name] = p.Schema.exampleValue()
			}
			for status, answer := range operation.Responses {
				if status < "4" { // all errors have the same type, which the schemas contain
					answers[status] = answer.exampleBody()
				}
			}
			out[strings.ToUpper(method)+" "+at] = map[string]any{"parameters": parameters, "request": operation.RequestBody.exampleBody(), "answers": answers}
		}
	}
	for name, s := range d.Components.Schemas {
		out[name] = s.exampleValue()
	}
	return out
}

func (m openAPIMessage) exampleBody() map[string]any {
	out := map[string]any{}
	for kind, content := range m.Content {
		out[kind] = content.Schema.exampleValue()
	}
	return out
}

func (s openAPISchema) exampleValue() any {
	if s.Ref != "" {
		return map[string]any{path.Base(s.Ref): map[string]any{}}
	}
	for _, one := range s.AnyOf {
		if !slices.Contains(allowedTypes(one.Type), "null") {
			return one.exampleValue()
		}
	}
	types := allowedTypes(s.Type)
	switch {
	case slices.Contains(types, "object"):
		out := map[string]any{}
		for name, property := range s.Properties {
			out[name] = property.exampleValue()
		}
		return out
	case slices.Contains(types, "array"):
		return []any{s.Items.exampleValue()}
	case slices.Contains(types, "integer"):
		return 1
	case slices.Contains(types, "number"):
		return 1.5
	case slices.Contains(types, "boolean"):
		return true
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	}
	return "text"
}
