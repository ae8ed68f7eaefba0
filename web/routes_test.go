package web

import (
	"testing"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/notify"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// A handler that is registered outside of the table would be reachable without any permission check.
func TestEveryRegisteredRouteIsInRouteTable(t *testing.T) {
	t.Parallel()
	s := New(Options{Control: control.New(nil, control.Options{}), Hub: notify.NewHub()})
	for of, served := range map[bool][]*echo.Route{false: s.pageEcho.Routes(), true: s.agentEcho.Routes()} {
		for _, r := range served {
			if line, ok := s.routeTable[r.Method+" "+r.Path]; !ok || (line.kind == agentCall) != of {
				t.Errorf("%s %s is not in the table of routes.go, which defines the permission (agent route: %v)", r.Method, r.Path, of)
			}
		}
	}
	if len(s.routeTable) != len(s.routes()) {
		t.Error("a route is in the table twice")
	}
}

// Routes without a required permission are open to the whole network, so the list of these routes must stay short.
func TestOnlyListedRoutesRequireNoPermission(t *testing.T) {
	t.Parallel()
	open := map[string]bool{
		"GET /healthz": true, "GET /readyz": true, "GET /static/*": true, "GET /metrics": true,
		"GET /sign-in": true, "POST /sign-in": true, "POST /sign-out": true, "GET /api/v1/openapi.json": true,
		"GET /help": true, "GET /help/:chapter": true,
		"POST " + wire.PathJoin: true,
	}
	s := New(Options{Control: control.New(nil, control.Options{}), Hub: notify.NewHub()})
	for name, r := range s.routeTable {
		if r.permission == noPermission && !open[name] {
			t.Errorf("%s requires no permission", name)
		}
		if (r.permission == policy.ActAsAgent) != (r.kind == agentCall && r.path != wire.PathJoin) {
			t.Errorf("%s: an agent route on the wrong listener", name)
		}
	}
}
