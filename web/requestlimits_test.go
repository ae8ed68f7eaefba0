//go:build ordeal

package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// maxValues is the number of JSON values that an API request may contain.
const maxValues = 25_000

// unlimitedList is a list or map in a request body whose size the schema does not limit. at is its path.
type unlimitedList struct {
	at      string
	element string // smallest valid element, as JSON
	named   bool
}

func (r unlimitedList) withElements(n int) json.RawMessage {
	var b strings.Builder
	for i := range n {
		if b.WriteByte(','); r.named {
			fmt.Fprintf(&b, `"n%d":`, i)
		}
		b.WriteString(r.element)
	}
	ends := "[]"
	if r.named {
		ends = "{}"
	}
	return json.RawMessage(ends[:1] + strings.TrimPrefix(b.String(), ",") + ends[1:])
}

func (d *openAPIDocument) smallestValue(s openAPISchema) string {
	kind := fmt.Sprint(d.resolve(s).Type)
	for _, of := range [][2]string{{"object", "{}"}, {"array", "[]"}, {"string", `""`}, {"boolean", "true"}} {
		if strings.Contains(kind, of[0]) {
			return of[1]
		}
	}
	return "1"
}

// unlimitedLists returns the lists and maps in a schema that have no size limit. at is the path of the schema.
func (d *openAPIDocument) unlimitedLists(t *testing.T, s openAPISchema, at string) (out []unlimitedList) {
	t.Helper()
	s = d.resolve(s)
	if strings.Count(at, ".") > 8 {
		t.Fatalf("%s: the schema is recursive", at)
	}
	if s.Items != nil {
		out = append(out, unlimitedList{at: at, element: d.smallestValue(*s.Items)})
		out = append(out, d.unlimitedLists(t, *s.Items, at+"[0]")...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, d.unlimitedLists(t, s.Properties[name], strings.TrimPrefix(at+"."+name, "."))...)
	}
	var of openAPISchema
	// The keyword additionalProperties is either a schema or a boolean.
	if len(s.AdditionalProperties) > 0 && json.Unmarshal(s.AdditionalProperties, &of) == nil {
		out = append(out, unlimitedList{at: at, element: d.smallestValue(of), named: true})
	}
	return out
}

// Each unlimited list of a request is sent twice. A list with the maximum number of values must be answered in time and
// with a small response. A longer list must be refused before the request is decoded.
func TestTooLongRequestListsRefused(t *testing.T) {
	t.Parallel()
	r := newRefusalPortal(t)
	edit := r.unchangedEdit(t, r.off)
	var api openAPIDocument
	if err := json.Unmarshal([]byte(r.admin.call("GET", "/api/v1/openapi.json", "").body), &api); err != nil {
		t.Fatal(err)
	}
	bases := map[string]map[string]any{ // valid bodies, because required fields are checked before the lists
		"post /api/v1/vms": r.fresh, "post /api/v1/vms/bulk-create": r.fresh, "post /api/v1/vms/plan": r.fresh, "patch /api/v1/vms/{id}": edit, "post /api/v1/vms/{id}/plan": edit,
	}
	tried := 0
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		id := string(fleet.NewID[fleet.VMID]())
		if strings.HasPrefix(path, "/api/v1/vms/{id}") {
			id = string(r.off)
		}
		for method, op := range api.Paths[path] {
			for _, content := range op.RequestBody.Content {
				for i, room := range api.unlimitedLists(t, content.Schema, "") {
					what := method + " " + path
					asked := func(n int) answer {
						body := deepCopy(t, bases[what])
						if body == nil {
							body = map[string]any{}
						}
						setJSONValue(t, body, room.at, room.withElements(n))
						return r.admin.call(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", id), mustJSON(body), "If-Match", "")
					}
					if a := asked(maxValues - 500); a.status >= http.StatusInternalServerError || len(a.body) > maxErrorSize {
						t.Errorf("%s with a full %s: %d with %d bytes: %.400s", what, room.at, a.status, len(a.body), a.body)
					}
					tried++
					if i > 0 {
						continue
					}
					if a := asked(maxValues + 1); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, "more than 25000 JSON values") {
						t.Errorf("%s with too many at %s: %d: %.400s", what, room.at, a.status, a.body)
					}
				}
			}
		}
	}
	if tried < 140 {
		t.Errorf("%d lists were tested", tried)
	}
	t.Logf("%d lists were tested", tried)
}
