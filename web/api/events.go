package api

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// EventsQuery holds the parameters of the stream of events.
type EventsQuery struct {
	Type        []string        `query:"type" doc:"Only events of these types, separated by commas: vm,task,alarm; default: all types that you may see"`
	Project     fleet.ProjectID `query:"project" doc:"Only events of objects of this project"`
	After       event.ID        `query:"after" doc:"Position: the ID of the last event that the client has processed. The header Last-Event-ID has priority"`
	LastEventID event.ID        `header:"Last-Event-ID" doc:"Position, which browsers' EventSource and other clients send when they reconnect"`
}

// eventsOperation returns the operation that streams events. A stream has no output type, so its response is described
// here.
func (api *API) eventsOperation() operation {
	o := newOperation(get, "/events", policy.VMSee, ok, "stream-events", "Stream changes of objects, tasks and alarms as server-sent events; resumable", api.streamEvents)
	o.streams = true
	o.register = func(api *API, router huma.API, op huma.Operation) {
		schemas := router.OpenAPI().Components.Schemas
		op.Responses = map[string]*huma.Response{"200": {
			Description: "Server-sent events. Each has an id, an event name (the type of the object, or resync) and one line of data: an Event, or a Resync. " +
				"After a resync, list the objects again: changes before its id are not in the stream. A comment is sent every 15 s.",
			Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{OneOf: []*huma.Schema{
				schemas.Schema(reflect.TypeFor[event.Event](), true, ""), schemas.Schema(reflect.TypeFor[event.Resync](), true, ""),
			}}}},
		}}
		huma.Register(router, op, func(ctx context.Context, in *EventsQuery) (*huma.StreamResponse, error) {
			c := ctx.Value(echoContextKey{}).(echo.Context)
			out, err := api.streamEvents(ctx, api.Actor(c), in)
			if err != nil {
				return nil, api.Problem(c, err)
			}
			return out, nil
		})
	}
	return o
}

func (api *API) streamEvents(ctx context.Context, a fleet.Actor, in *EventsQuery) (*huma.StreamResponse, error) {
	var checks fleet.Checks
	types := event.ParseTypes(&checks, "query.type", in.Type)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	serve, err := api.OpenEvents(ctx.Value(echoContextKey{}).(echo.Context), a, event.Query{Types: types, Project: in.Project, After: cmp.Or(in.LastEventID, in.After)})
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(huma.Context) { serve() }}, nil
}

// waitParam is the parameter of operations that can wait for a task.
const waitParam = "wait"

// maxWait is the maximum time for which an operation waits.
const maxWait = time.Minute

// Waits reports whether a request asks for an operation that waits, which therefore has no common deadline.
func Waits(c echo.Context) bool {
	return c.Request().Method == http.MethodGet && c.Path() == Base+"/tasks/:id" && c.QueryParam(waitParam) != ""
}

// parseWait returns the time of the parameter wait: "30s", "1m" or a number of seconds.
func parseWait(text string) (time.Duration, error) {
	if !strings.ContainsAny(text, "smhuµn") {
		text += "s"
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		var c fleet.Checks
		c.Add("query."+waitParam, "Give a time from 0s to 60s, such as 30s.")
		return 0, c.Err()
	}
	return wait, nil
}
