// Package api serves the REST API of the portal, /api/v1. An operation decodes its input, calls control and returns its
// output; table.go lists all operations. list.go and object.go have the operations of all lists and of plain objects.
// Resource types with other operations have a file: vms.go, hosts.go and so on. Only this package uses huma.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/catalog"
	"quantix/internal/control"
	"quantix/internal/event"
	"quantix/internal/export"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
	"quantix/internal/hostcommand"
	"quantix/internal/ipam"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
	"quantix/internal/template"
	"quantix/web/idempotency"
	"quantix/web/problem"
)

// Base is the path of the API. All operations are below it.
const Base = "/api/v1"

// MaxBodyBytes is the maximum size of a request's body.
const MaxBodyBytes = 1 << 20

// API serves the operations of /api/v1. All exported fields must be set before the first call of a method.
type API struct {
	Control *control.Control
	Version string // the portal's version, for the OpenAPI description

	// Actor returns the authenticated actor of a request, who has the permission of the operation's route.
	Actor func(echo.Context) fleet.Actor
	// Problem returns the response to a request that failed with an error, and logs the error.
	Problem func(echo.Context, error) *problem.Body
	// NewConsoleTicket creates a ticket for a VM's console. base is the prefix of the websocket's address in the
	// ticket.
	NewConsoleTicket func(ctx context.Context, a fleet.Actor, vm fleet.VMID, base string) (ConsoleTicket, error)
	// NewDiscoveredConsoleTicket works like NewConsoleTicket, for a VM of the host that Quantix does not manage.
	NewDiscoveredConsoleTicket func(ctx context.Context, a fleet.Actor, host fleet.HostID, vm fleet.VMID, base string) (ConsoleTicket, error)

	// OpenEvents opens a stream of events after a position. It returns the function that serves the stream until its end.
	OpenEvents func(c echo.Context, a fleet.Actor, q event.Query) (serve func(), err error)
	// WaitForTask returns a task when it has ended, or its state after the time.
	WaitForTask func(c echo.Context, a fleet.Actor, id fleet.TaskID, wait time.Duration) (fleet.Task, error)

	description func() ([]byte, error) // the OpenAPI description
}

// operationFunc is the handler of one operation of /api/v1. The input I holds the parameters and the body. The output O
// holds the response's headers and body.
type operationFunc[I, O any] func(ctx context.Context, a fleet.Actor, in *I) (*O, error)

// operation is one row of the API's table. huma registers the operation, and the middleware finds the required
// permission by the route.
type operation struct {
	huma.Operation
	permission policy.Permission
	streams    bool // the response is a stream, without a deadline
	register   func(api *API, router huma.API, op huma.Operation)
}

// newOperation returns an operation that answers with the given status on success. path is relative to Base and may
// contain {id} and other parameters.
func newOperation[I, O any](method, path string, permission policy.Permission, status int, id, summary string, do operationFunc[I, O]) operation {
	typ, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	o := operation{permission: permission, Operation: huma.Operation{
		Method: method, Path: Base + path, OperationID: id, Summary: summary, DefaultStatus: status, Tags: []string{typ}, MaxBodyBytes: MaxBodyBytes,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
			http.StatusServiceUnavailable,
		},
	}}
	if method == post {
		o.Parameters = []*huma.Param{idempotencyKeyParam()}
	}
	o.register = func(api *API, router huma.API, op huma.Operation) {
		huma.Register(router, op, func(ctx context.Context, in *I) (*O, error) {
			c := ctx.Value(echoContextKey{}).(echo.Context)
			out, err := runOperation(ctx, api, c, in, do)
			if err != nil {
				return nil, api.Problem(c, err)
			}
			return out, nil
		})
	}
	return o
}

// runOperation runs the operation do with its decoded input. A POST with an Idempotency-Key runs at most once.
func runOperation[I, O any](ctx context.Context, api *API, c echo.Context, in *I, do operationFunc[I, O]) (*O, error) {
	a := api.Actor(c)
	if c.Request().Method != post {
		return do(ctx, a, in)
	}
	key, err := idempotencyKeyOf(c, in)
	if err != nil {
		return nil, err
	}
	out, replayed, err := idempotency.Run(ctx, api.Control, a, key, func(ctx context.Context) (*O, error) { return do(ctx, a, in) })
	if replayed {
		c.Response().Header().Set(replayedResponseHeader, "true")
	}
	return out, err
}

// echoContextKey is the context key of the echo request. huma passes the context on to answer, which reads the actor
// from the request.
type echoContextKey struct{}

// emptyOutput is the response of an operation that answers 204: it has no body.
type emptyOutput struct{}

// OfferedActions lists the actions on the object that the user may start now, and the others with the reason. It is exported
// because huma describes no unexported embedded types.
type OfferedActions struct {
	Actions []fleet.ActionState `json:"actions" doc:"The actions on the object, each with the reason if it is not possible now"`
}

func offeredActions(a fleet.Actor, typ string, states []fleet.ActionState) OfferedActions {
	return OfferedActions{policy.RestrictActions(a, typ, "", states)}
}

// Route is the route of an operation. Path has the form of echo's router: "/api/v1/vms/:id".
type Route struct {
	Method, Path string
	Permission   policy.Permission
	Streams      bool // the response is a stream, without a deadline
}

// Routes lists the routes of all operations.
func (api *API) Routes() []Route {
	var routes []Route
	colons := strings.NewReplacer("{", ":", "}", "")
	for _, o := range api.operations() {
		routes = append(routes, Route{o.Method, colons.Replace(o.Path), o.permission, o.streams})
	}
	return routes
}

// Register registers the operations of /api/v1 on e and prepares the OpenAPI description.
func (api *API) Register(e *echo.Echo) {
	config := huma.DefaultConfig("Quantix", api.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Info.Description = descriptionText
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[fleet.ReportTime](), reflect.TypeFor[time.Time]())
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "An API token, \"qx_…\", created under Account, API tokens."},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.Formats = map[string]huma.Format{"application/json": limitedJSON, "json": limitedJSON, "application/yaml": limitedYAML}
	config.FieldsOptionalByDefault = true      // control checks for missing fields, with the same rules as for pages
	config.RejectUnknownQueryParameters = true // a misspelt filter would silently return unfiltered results
	router := humaecho.New(e, config)
	router.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		changeFormTypeToJSON(humaecho.Unwrap(ctx).Request())
		next(huma.WithValue(ctx, echoContextKey{}, humaecho.Unwrap(ctx)))
	})
	for _, o := range api.operations() {
		o.register(api, router, o.Operation)
	}
	requireResponseFields(router.OpenAPI())
	// The first request for the description renders it: rendering takes 100 ms, which would delay every start of the
	// portal.
	api.description = sync.OnceValues(func() ([]byte, error) { return json.Marshal(router.OpenAPI()) })
}

const descriptionText = "The operations of the pages, for programs. Lists answer {\"items\": […], \"next\": \"…\"}: pass next as " +
	"?after= for the next page. Refusals are problem+json with a sentence that says what to do, and the path of the field where one applies. " +
	"An object that you may not see answers 404, like an object that does not exist."

// changeFormTypeToJSON changes the form content type, which curl and other clients send by default, to JSON. It changes only
// requests with a bearer token: browsers never add a token to cross-site forms.
func changeFormTypeToJSON(r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" && auth.BearerToken(r) != "" {
		r.Header.Set("Content-Type", "application/json")
	}
}

// ServeDescription answers with the OpenAPI description, which needs no token.
func (api *API) ServeDescription(c echo.Context, _ fleet.Actor) error {
	text, err := api.description()
	if err != nil {
		return fmt.Errorf("render the API's description: %w", err)
	}
	return c.Blob(http.StatusOK, "application/vnd.oai.openapi+json;version=3.1", text)
}

// schemaNames are the names of the schemas of types whose name needs its package: "Version" of package template.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[hostcommand.Artifact]():      "Diagnostics",
	reflect.TypeFor[hostcommand.Item]():          "DiagnosticItem",
	reflect.TypeFor[healthpolicy.Policy]():       "HealthPolicy",
	reflect.TypeFor[healthpolicy.Spec]():         "HealthPolicySpec",
	reflect.TypeFor[healthpolicy.Actions]():      "HealthPolicyActions",
	reflect.TypeFor[healthpolicy.Match]():        "HealthMatch",
	reflect.TypeFor[healthpolicy.Act]():          "HealthAct",
	reflect.TypeFor[healthpolicy.OfHost]():       "HostHealthMatches",
	reflect.TypeFor[healthpolicy.Trial]():        "HealthPolicyTrial",
	reflect.TypeFor[healthevent.Event]():         "HealthEvent",
	reflect.TypeFor[maintenance.Plan]():          "MaintenancePlan",
	reflect.TypeFor[maintenance.VM]():            "MaintenanceVM",
	reflect.TypeFor[maintenance.Choice]():        "MaintenanceChoice",
	reflect.TypeFor[maintenance.Room]():          "MaintenanceRoom",
	reflect.TypeFor[maintenance.Pool]():          "MaintenancePool",
	reflect.TypeFor[problem.Body]():              "Problem",
	reflect.TypeFor[problem.Field]():             "ProblemField",
	reflect.TypeFor[catalog.Copy]():              "StartPull",
	reflect.TypeFor[catalog.Result]():            "StartResult",
	reflect.TypeFor[export.File]():               "Export",
	reflect.TypeFor[event.Event]():               "ChangeEvent",
	reflect.TypeFor[event.Resync]():              "ResyncEvent",
	reflect.TypeFor[ipam.Usage]():                "NetworkAddresses",
	reflect.TypeFor[ipam.Range]():                "RangeUse",
	reflect.TypeFor[ipam.Reservation]():          "ReservedAddress",
	reflect.TypeFor[ipam.Address]():              "AddressInUse",
	reflect.TypeFor[ipam.Conflict]():             "AddressConflict",
	reflect.TypeFor[secgroup.View]():             "SecurityGroup",
	reflect.TypeFor[fleet.Page[secgroup.View]](): "SecurityGroupPage",
	reflect.TypeFor[secgroup.Spec]():             "SecurityGroupSpec",
	reflect.TypeFor[secgroup.Rule]():             "SecurityRule",
	reflect.TypeFor[secgroup.Status]():           "SecurityGroupStatus",
	reflect.TypeFor[secgroup.Host]():             "SecurityGroupHost",
	reflect.TypeFor[secgroup.Member]():           "SecurityGroupMember",
	reflect.TypeFor[secgroup.Count]():            "GroupCount",
	reflect.TypeFor[template.View]():             "Template",
	reflect.TypeFor[fleet.Page[template.View]](): "TemplatePage",
	reflect.TypeFor[template.Version]():          "TemplateVersion",
	reflect.TypeFor[template.Disk]():             "TemplateDisk",
	reflect.TypeFor[template.VM]():               "TemplateVM",
}

// schemaName returns the name of a type's schema. VMView is named "VM", because API clients see only the view.
func schemaName(t reflect.Type, hint string) string {
	plain := t
	if t.Kind() == reflect.Pointer {
		plain = t.Elem()
	}
	if name := schemaNames[plain]; name != "" {
		return name
	}
	name := strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
	if names := strings.SplitAfter(name, "Page"); len(names) == 2 && names[0] == "Page" {
		return names[1] + "Page"
	}
	switch name {
	case "Job":
		return "Task"
	case "JobPage":
		return "TaskPage"
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
				// huma supports null for plain types, but not for references to other schemas and for aliases.
				switch p := schema.Properties[f.name]; {
				case !f.nullable || p == nil:
				case p.Ref != "":
					schema.Properties[f.name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
				default:
					p.Nullable = true
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

// requiredField is a JSON field that is never omitted. nullable means that the value may be nil, which is written as
// null.
type requiredField struct {
	name     string
	nullable bool
}

// requiredFieldsOf returns the JSON fields of t that are never omitted.
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
