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

// operationFunc is the handler of one operation of /api/v1. The input I holds the parameters and the body. The output O
// holds the response's headers and body.
type operationFunc[I, O any] func(ctx context.Context, a fleet.Actor, in *I) (*O, error)

// operation is one row of the API's table. huma registers the operation, and the middleware finds the required
// permission by the route.
type operation struct {
	huma.Operation
	permission policy.Permission
	register   func(s *Server, api huma.API, op huma.Operation)
}

// newOperation returns an operation that answers with status on success. path is relative to apiBase, with {id} for a
// parameter.
func newOperation[I, O any](method, path string, right policy.Permission, status int, id, summary string, do operationFunc[I, O]) operation {
	typ, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	o := operation{permission: right, Operation: huma.Operation{
		Method: method, Path: apiBase + path, OperationID: id, Summary: summary, DefaultStatus: status, Tags: []string{typ}, MaxBodyBytes: maxAPIBodyBytes,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
			http.StatusServiceUnavailable,
		},
	}}
	if method == post {
		o.Parameters = []*huma.Param{idempotencyKeyParam()}
	}
	o.register = func(s *Server, api huma.API, op huma.Operation) {
		huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
			c := ctx.Value(echoContextKey{}).(echo.Context)
			out, err := answer(ctx, s, c, in, do)
			if err != nil {
				return nil, s.apiProblem(c, err)
			}
			return out, nil
		})
	}
	return o
}

// answer runs the operation do with its decoded input. A POST with an Idempotency-Key runs at most once.
func answer[I, O any](ctx context.Context, s *Server, c echo.Context, in *I, do operationFunc[I, O]) (*O, error) {
	a := actorOf(c)
	if c.Request().Method != post {
		return do(ctx, a, in)
	}
	key, err := idempotencyKeyOf(c, in)
	if err != nil {
		return nil, err
	}
	out, replayed, err := runIdempotent(ctx, s, a, key, func(ctx context.Context) (*O, error) { return do(ctx, a, in) })
	if replayed {
		c.Response().Header().Set(replayedResponseHeader, "true")
	}
	return out, err
}

// echoContextKey is the context key under which huma passes the echo request on to answer, which reads the actor from
// it.
type echoContextKey struct{}

// emptyOutput is the response of an operation that answers 204: it has no body.
type emptyOutput struct{}

// Offered lists the actions that the user may start on the object now, with reasons for those refused. It is exported
// because huma describes no unexported embedded types.
type Offered struct {
	Actions []fleet.ActionState `json:"actions" doc:"The actions on the object, each with the reason if it is not possible now"`
}

func offeredActions(a fleet.Actor, typ string, states []fleet.ActionState) Offered {
	return Offered{policy.RestrictActions(a, typ, "", states)}
}

// apiRoutes lists the routes of /api/v1 with the permission of each operation.
func (s *Server) apiRoutes() []route {
	routes := []route{
		{get, apiBase + "/openapi.json", api, noPermission, s.openAPI},
		{get, apiBase + "/console/:id", socket, policy.VMUse, s.apiConsoleSocket},
	}
	colons := strings.NewReplacer("{", ":", "}", "")
	for _, o := range s.operations() {
		routes = append(routes, route{o.Method, colons.Replace(o.Path), api, o.permission, nil})
	}
	return routes
}

// registerAPI registers the operations of /api/v1 on e and prepares the OpenAPI description.
func (s *Server) registerAPI(e *echo.Echo) {
	config := huma.DefaultConfig("Quantix", s.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Info.Description = apiDescription
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "An API token, \"qx_…\", created under Account, API tokens."},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.Formats = map[string]huma.Format{"application/json": limitedJSON, "json": limitedJSON, "application/yaml": limitedYAML}
	config.FieldsOptionalByDefault = true      // control checks for missing fields, with the same rules as for pages
	config.RejectUnknownQueryParameters = true // a misspelt filter would silently return unfiltered results
	api := humaecho.New(e, config)
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		formTypeAsJSON(humaecho.Unwrap(ctx).Request())
		next(huma.WithValue(ctx, echoContextKey{}, humaecho.Unwrap(ctx)))
	})
	for _, o := range s.operations() {
		o.register(s, api, o.Operation)
	}
	requireResponseFields(api.OpenAPI())
	// The first request for the description renders it: rendering takes 100 ms, which would delay every start of the
	// portal.
	s.description = sync.OnceValues(func() ([]byte, error) { return json.Marshal(api.OpenAPI()) })
}

const apiDescription = "The operations of the pages, for programs. Lists answer {\"items\": […], \"next\": \"…\"}: pass next as " +
	"?after= for the next page. Refusals are problem+json with a sentence that says what to do, and the path of the field where one applies. " +
	"An object that you may not see answers 404, like an object that does not exist."

// formTypeAsJSON changes the form content type, which curl and other clients send by default, to JSON. It changes only
// requests with a bearer token: browsers never add a token to cross-site forms.
func formTypeAsJSON(r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" && bearerToken(r) != "" {
		r.Header.Set("Content-Type", "application/json")
	}
}

// openAPI answers with the OpenAPI description, which needs no token.
func (s *Server) openAPI(c echo.Context, _ fleet.Actor) error {
	text, err := s.description()
	if err != nil {
		return fmt.Errorf("render the API's description: %w", err)
	}
	return c.Blob(http.StatusOK, "application/vnd.oai.openapi+json;version=3.1", text)
}

// apiProblem converts err to a problem response, by the same rules as errors of pages.
func (s *Server) apiProblem(c echo.Context, err error) *problemBody {
	if errors.Is(c.Request().Context().Err(), context.Canceled) { // the client has disconnected
		return newProblemBody(refusal{status: http.StatusServiceUnavailable, message: "The client disconnected. Send the request again."})
	}
	r := s.refusalFromError(c, convertTooLargeError(err))
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "5")
	}
	return newProblemBody(r)
}

// schemaName returns the name of a type's schema. VMView is named "VM", because API clients see only the view.
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

// requireResponseFields marks the fields that responses always contain (possibly null) as required. Fields of request
// bodies stay optional.
func requireResponseFields(doc *huma.OpenAPI) {
	asked := map[string]bool{}
	for _, path := range doc.Paths {
		for _, o := range []*huma.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
			if o == nil || o.RequestBody == nil {
				continue
			}
			for _, m := range o.RequestBody.Content {
				collectSchemas(doc.Components.Schemas, m.Schema, asked)
			}
		}
	}
	for name, schema := range doc.Components.Schemas.Map() {
		if t := doc.Components.Schemas.TypeFromRef("#/components/schemas/" + name); t != nil && !asked[name] {
			schema.Required = nil
			for _, f := range requiredFieldsOf(t) {
				schema.Required = append(schema.Required, f.name)
				// huma supports null only for plain types, not for references to other schemas.
				if p := schema.Properties[f.name]; f.nullable && p != nil && p.Ref != "" {
					schema.Properties[f.name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
				}
			}
		}
	}
}

// collectSchemas records every schema that s refers to, directly or indirectly.
func collectSchemas(all huma.Registry, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		if seen[name] {
			return
		}
		seen[name] = true
		collectSchemas(all, all.SchemaFromRef(s.Ref), seen)
	}
	collectSchemas(all, s.Items, seen)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		collectSchemas(all, more, seen)
	}
	for _, p := range s.Properties {
		collectSchemas(all, p, seen)
	}
}

// requiredField is a JSON field that is never omitted. null: the field's value may be nil, which is written as null.
type requiredField struct {
	name     string
	nullable bool
}

// requiredFieldsOf returns the fields of t that are never omitted.
func requiredFieldsOf(t reflect.Type) (fields []requiredField) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, rules, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" && name != "-" && !strings.Contains(rules, "omitempty") && !strings.Contains(rules, "omitzero") {
			fields = append(fields, requiredField{name, f.Type.Kind() == reflect.Pointer})
		}
	}
	return fields
}
