package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
)

// openAPIDocument is the OpenAPI document that the portal serves. The tests of this package check every response of
// /api/v1 against the document.
type openAPIDocument struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In string
			Schema   openAPISchema
		}
		RequestBody openAPIMessage
		Responses   map[string]openAPIMessage
	}
	Components struct{ Schemas map[string]openAPISchema }
}

type openAPIMessage struct {
	Content map[string]struct{ Schema openAPISchema }
}

// openAPISchema holds the JSON Schema keywords that the document uses. Decoding fails on any other keyword.
type openAPISchema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	ContentEncoding      string
	Description          string
	Title                string
	Examples             []any
	Properties           map[string]openAPISchema
	AdditionalProperties json.RawMessage
	Required             []string
	Items                *openAPISchema
	AnyOf                []openAPISchema
	Enum                 []any
	Minimum              *float64
}

// readDescription decodes the document. It fails on unknown keywords, because the check of responses would ignore these
// keywords.
func readDescription(text []byte) (*openAPIDocument, error) {
	var d openAPIDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	var raw struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	for name, text := range raw.Components.Schemas {
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&openAPISchema{}); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	return &d, nil
}

// pathTemplateOf returns the document's path template for a request path, such as "/vms/{id}".
func (d *openAPIDocument) pathTemplateOf(path string) (string, bool) {
	parts := strings.Split(path, "/")
	best, holes := "", math.MaxInt
	for template := range d.Paths {
		want := strings.Split(template, "/")
		n := strings.Count(template, "{")
		if len(want) == len(parts) && n < holes && !slices.ContainsFunc(allIndexes(want), func(i int) bool {
			return !strings.HasPrefix(want[i], "{") && want[i] != parts[i]
		}) {
			best, holes = template, n
		}
	}
	return best, best != ""
}

func allIndexes(s []string) []int {
	out := make([]int, len(s))
	for i := range s {
		out[i] = i
	}
	return out
}

// differences returns the differences between a response and the document. A correct response has none.
func (d *openAPIDocument) differences(method, path string, status int, kind string, body []byte) []string {
	template, ok := d.pathTemplateOf(path)
	if !ok {
		return nil // an unknown path, whose error response belongs to no operation
	}
	operation, ok := d.Paths[template][strings.ToLower(method)]
	if !ok {
		return nil
	}
	answer, ok := operation.Responses[strconv.Itoa(status)]
	if !ok {
		return []string{fmt.Sprintf("the status %d is not described", status)}
	}
	if len(answer.Content) == 0 {
		if len(body) > 0 {
			return []string{"no body is described"}
		}
		return nil
	}
	kind, _, _ = strings.Cut(kind, ";")
	media, ok := answer.Content[kind]
	if !ok {
		return []string{fmt.Sprintf("the type %q is not described, only %v", kind, slices.Collect(maps.Keys(answer.Content)))}
	}
	if kind == "application/zip" {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return []string{err.Error()}
	}
	return d.violations("", media.Schema, value)
}

// violations returns the paths of all values, in the value at path at, that violate the schema.
func (d *openAPIDocument) violations(at string, s openAPISchema, v any) (out []string) {
	s = d.resolve(s)
	if len(s.AnyOf) > 0 {
		var reasons []string
		for _, one := range s.AnyOf {
			differs := d.violations(at, one, v)
			if len(differs) == 0 {
				return nil
			}
			reasons = append(reasons, differs...)
		}
		return reasons
	}
	if s.Type != nil && !slices.ContainsFunc(jsonTypesOf(v), func(is string) bool { return slices.Contains(allowedTypes(s.Type), is) }) {
		return []string{fmt.Sprintf("%s is %v, want %v", at, v, s.Type)}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		out = append(out, fmt.Sprintf("%s is %v, want one of %v", at, v, s.Enum))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				out = append(out, at+"."+name+" is missing")
			}
		}
		var more openAPISchema
		free := len(s.AdditionalProperties) > 0 && json.Unmarshal(s.AdditionalProperties, &more) == nil || string(s.AdditionalProperties) == "true"
		for name, value := range v {
			switch property, ok := s.Properties[name]; {
			case ok:
				out = append(out, d.violations(at+"."+name, property, value)...)
			case free:
				out = append(out, d.violations(at+"."+name, more, value)...)
			default:
				out = append(out, at+"."+name+" is not described")
			}
		}
	case []any:
		for i, item := range v {
			if s.Items != nil {
				out = append(out, d.violations(fmt.Sprintf("%s[%d]", at, i), *s.Items, item)...)
			}
		}
	case float64:
		if s.Minimum != nil && v < *s.Minimum {
			out = append(out, fmt.Sprintf("%s is %v, want at least %v", at, v, *s.Minimum))
		}
	}
	return out
}

// allowedTypes returns the value of a schema's type keyword, a string or a list, as a list of types.
func allowedTypes(types any) (out []string) {
	switch types := types.(type) {
	case string:
		return []string{types}
	case []any:
		for _, one := range types {
			out = append(out, fmt.Sprint(one))
		}
	}
	return out
}

// jsonTypesOf returns the JSON Schema types of a decoded value. A whole number has two types: integer and number.
func jsonTypesOf(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"boolean"}
	case string:
		return []string{"string"}
	case []any:
		return []string{"array"}
	case float64:
		if v == math.Trunc(v) {
			return []string{"integer", "number"}
		}
		return []string{"number"}
	}
	return []string{"object"}
}

// servedDocument is the OpenAPI document. It is read once, because it is the same for all portals of this process.
var servedDocument struct {
	once sync.Once
	doc  *openAPIDocument
	err  error
}

// checkedHandler returns a handler that passes requests to next and checks every response of /api/v1 against the
// document that next serves.
func checkedHandler(t testing.TB, next http.Handler) http.Handler {
	servedDocument.once.Do(func() {
		w := httptest.NewRecorder()
		next.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", nil))
		servedDocument.doc, servedDocument.err = readDescription(w.Body.Bytes())
	})
	if servedDocument.err != nil {
		t.Fatal(servedDocument.err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/") || r.Header.Get("Upgrade") != "" || r.URL.Path == "/api/v1/openapi.json" || r.URL.Path == "/api/v1/events" {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding")
		record := httptest.NewRecorder()
		next.ServeHTTP(record, r)
		if r.Context().Err() != nil {
			return // the client has disconnected, so no response was written
		}
		for _, fault := range servedDocument.doc.differences(r.Method, r.URL.Path, record.Code, record.Header().Get("Content-Type"), record.Body.Bytes()) {
			t.Errorf("%s %s answers %d, not as /api/v1/openapi.json describes: %s", r.Method, r.URL.Path, record.Code, strings.TrimSpace(fault))
		}
		maps.Copy(w.Header(), record.Header())
		w.WriteHeader(record.Code)
		_, _ = w.Write(record.Body.Bytes()) // the test's client notices write errors
	})
}

// TestObjectsWithoutReportMatchOpenAPI reads every object without any report; the wrapper checkedHandler checks the
// responses against the document.
func TestObjectsWithoutReportMatchOpenAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	host := fleet.NewID[fleet.HostID]()
	p.execSQL("INSERT INTO hosts (id, name) VALUES ($1, 'silent')", host)
	p.execSQL("INSERT INTO host_sessions (host_id) VALUES ($1)", host)
	project, vm, pool := p.addProject("shop"), fleet.NewID[fleet.VMID](), fleet.NewID[fleet.PoolID]()
	p.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ($1, $2, $3, 'unborn', '{"power":"stopped","cpus":1,"memoryMiB":64,"disks":[],"nics":[]}')`, vm, project, host)
	p.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, 'empty', '{"kind":"dir","path":"/srv/empty"}')`, pool)
	p.execSQL("INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'assign')", pool, host)
	p.addNetwork("default", host)
	h, err := admin.Host(t.Context(), host)
	if err != nil || h.Status != nil || h.SeenAt != nil || h.Phase != fleet.HostPending {
		t.Errorf("the host is %+v, %v; want a pending host", h, err)
	}
	for _, path := range []string{
		"/hosts", "/hosts/" + string(host), "/hosts/" + string(host) + "/discovered-vms", "/vms", "/vms/" + string(vm), "/vms/" + string(vm) + "/events",
		"/pools", "/pools/" + string(pool), "/pools/" + string(pool) + "/volumes", "/pools/" + string(pool) + "/vms", "/networks", "/projects",
		"/projects/" + string(project), "/projects/" + string(project) + "/members", "/projects/" + string(project) + "/quota", "/projects/" + string(project) + "/usage", "/users", "/users/me", "/tasks", "/tokens", "/join-tokens",
	} {
		admin.call(http.MethodGet, "/api/v1"+path, "").requireStatus(t, http.StatusOK)
	}
}

func (d *openAPIDocument) resolve(s openAPISchema) openAPISchema {
	for s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}
