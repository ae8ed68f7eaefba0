package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const apiBase = "/api/v1"

// call is one operation of /api/v1. in holds parameters and body, out the headers and the body that go back.
type call[I, O any] func(ctx context.Context, a fleet.Actor, in *I) (*O, error)

// operation is a line of the API's table: huma registers it, and the middleware finds its right under its route.
type operation struct {
	huma.Operation
	right    policy.Permission
	register func(s *Server, api huma.API, op huma.Operation)
}

// op makes an operation that answers status. path is below apiBase, with {id} for a parameter.
func op[I, O any](method, path string, right policy.Permission, status int, id, summary string, do call[I, O]) operation {
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	o := operation{right: right, Operation: huma.Operation{
		Method: method, Path: apiBase + path, OperationID: id, Summary: summary, DefaultStatus: status, Tags: []string{noun}, MaxBodyBytes: apiLimit,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
			http.StatusServiceUnavailable,
		},
	}}
	if method == post {
		o.Parameters = []*huma.Param{keyParam()}
	}
	o.register = func(s *Server, api huma.API, op huma.Operation) {
		huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
			c := ctx.Value(callKey{}).(echo.Context)
			out, err := answer(ctx, s, c, in, do)
			if err != nil {
				return nil, s.apiProblem(c, err)
			}
			return out, nil
		})
	}
	return o
}

// answer asks do; a POST once for each Idempotency-Key.
func answer[I, O any](ctx context.Context, s *Server, c echo.Context, in *I, do call[I, O]) (*O, error) {
	a := actorOf(c)
	if c.Request().Method != post {
		return do(ctx, a, in)
	}
	key, err := keyOf(c, in)
	if err != nil {
		return nil, err
	}
	out, replayed, err := once(ctx, s, a, key, func(ctx context.Context) (*O, error) { return do(ctx, a, in) })
	if replayed {
		c.Response().Header().Set(replayHeader, "true")
	}
	return out, err
}

// callKey carries the request across huma, to the one place above that takes the actor out of it.
type callKey struct{}

// nothing is the body of a 204.
type nothing struct{}

// Offered is what the person may ask of the object now, and why not. Exported, as huma describes no other embedded types.
type Offered struct {
	Actions []fleet.ActionState `json:"actions" doc:"What you can ask of it now, and why not"`
}

func offers(a fleet.Actor, noun string, states []fleet.ActionState) Offered {
	return Offered{policy.Offer(a, noun, "", states)}
}

// apiRoutes lists /api/v1 with the right that each operation needs.
func (s *Server) apiRoutes() []route {
	routes := []route{
		{get, apiBase + "/openapi.json", api, anyone, s.openAPI},
		{get, apiBase + "/console/:id", socket, policy.VMUse, s.apiConsoleSocket},
	}
	colons := strings.NewReplacer("{", ":", "}", "")
	for _, o := range s.operations() {
		routes = append(routes, route{o.Method, colons.Replace(o.Path), api, o.right, nil})
	}
	return routes
}

// registerAPI puts the handlers of /api/v1 on e and writes its description.
func (s *Server) registerAPI(e *echo.Echo) {
	config := huma.DefaultConfig("Quantix", s.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Info.Description = apiDescription
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "An API token, \"qx_…\", made under Account, API tokens."},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.Formats = map[string]huma.Format{"application/json": boundedJSON, "json": boundedJSON, "application/yaml": boundedYAML}
	config.FieldsOptionalByDefault = true      // what is missing is judged by the same rules as on the pages
	config.RejectUnknownQueryParameters = true // a misspelt filter would show what nobody asked for
	api := humaecho.New(e, config)
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		takeForJSON(humaecho.Unwrap(ctx).Request())
		next(huma.WithValue(ctx, callKey{}, humaecho.Unwrap(ctx)))
	})
	for _, o := range s.operations() {
		o.register(s, api, o.Operation)
	}
	requireAnswers(api.OpenAPI())
	// Rendered by the first who asks: it takes a tenth of a second, which no start needs.
	s.description = sync.OnceValues(func() ([]byte, error) { return json.Marshal(api.OpenAPI()) })
}

const apiDescription = "The operations of the pages, for programs. Lists answer {\"items\": […], \"next\": \"…\"}: pass next as " +
	"?after= to go on. Refusals are problem+json with a sentence that says what to do, and the path of the field where one applies. " +
	"What you may not see answers 404, as what does not exist."

// takeForJSON reads as JSON what curl and others send under a form's type where none was named. It comes with a bearer token, which no
// browser adds by itself, so it is no other site's form.
func takeForJSON(r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" && bearerOf(r) != "" {
		r.Header.Set("Content-Type", "application/json")
	}
}

// openAPI answers with the description of the API, which needs no token.
func (s *Server) openAPI(c echo.Context, _ fleet.Actor) error {
	text, err := s.description()
	if err != nil {
		return fmt.Errorf("render the API's description: %w", err)
	}
	return c.Blob(http.StatusOK, "application/vnd.oai.openapi+json;version=3.1", text)
}

// apiProblem judges an error as it is judged for pages.
func (s *Server) apiProblem(c echo.Context, err error) *problemBody {
	if errors.Is(c.Request().Context().Err(), context.Canceled) { // nobody reads the answer
		return problemOf(refusal{status: http.StatusServiceUnavailable, message: "The request ended early. Ask again."})
	}
	r := s.refuse(c, asTooLarge(err))
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "5")
	}
	return problemOf(r)
}

// schemaName calls a VMView a VM: programs know only the view.
func schemaName(t reflect.Type, hint string) string {
	name := strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
	if names := strings.SplitAfter(name, "Page"); len(names) == 2 && names[0] == "Page" {
		return names[1] + "Page"
	}
	switch name {
	case "Job":
		return "Task"
	case "JobPage":
		return "TaskPage"
	case "ProblemBody", "ProblemField":
		return strings.TrimSuffix(name, "Body")
	}
	return name
}

// requireAnswers marks what answers always hold, be it null. Bodies of requests keep their fields optional.
func requireAnswers(doc *huma.OpenAPI) {
	asked := map[string]bool{}
	for _, path := range doc.Paths {
		for _, o := range []*huma.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
			if o == nil || o.RequestBody == nil {
				continue
			}
			for _, m := range o.RequestBody.Content {
				reach(doc.Components.Schemas, m.Schema, asked)
			}
		}
	}
	for name, schema := range doc.Components.Schemas.Map() {
		if t := doc.Components.Schemas.TypeFromRef("#/components/schemas/" + name); t != nil && !asked[name] {
			schema.Required = nil
			for _, f := range alwaysThere(t) {
				schema.Required = append(schema.Required, f.name)
				// huma knows null for plain types alone, not for what another schema describes.
				if p := schema.Properties[f.name]; f.null && p != nil && p.Ref != "" {
					schema.Properties[f.name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
				}
			}
		}
	}
}

// reach notes every schema that s leads to.
func reach(all huma.Registry, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		if seen[name] {
			return
		}
		seen[name] = true
		reach(all, all.SchemaFromRef(s.Ref), seen)
	}
	reach(all, s.Items, seen)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		reach(all, more, seen)
	}
	for _, p := range s.Properties {
		reach(all, p, seen)
	}
}

// alwaysField is a JSON field that is never left out; null where it may hold nothing.
type alwaysField struct {
	name string
	null bool
}

// alwaysThere are the fields of t that are never left out.
func alwaysThere(t reflect.Type) (fields []alwaysField) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, rules, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" && name != "-" && !strings.Contains(rules, "omitempty") && !strings.Contains(rules, "omitzero") {
			fields = append(fields, alwaysField{name, f.Type.Kind() == reflect.Pointer})
		}
	}
	return fields
}
