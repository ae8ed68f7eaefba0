package web

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/notify"
	"quantix/internal/policy"
)

// A handler that is registered past the table would be reachable without any right.
func TestEveryRouteIsInTheTable(t *testing.T) {
	t.Parallel()
	s := New(Options{Control: control.New(nil, control.Options{}), Hub: notify.NewHub()})
	for _, r := range s.pages.Routes() {
		if _, ok := s.table[r.Method+" "+r.Path]; !ok {
			t.Errorf("%s %s is not in the table of routes.go", r.Method, r.Path)
		}
	}
	if len(s.table) != len(s.routes()) {
		t.Error("a route is in the table twice")
	}
}

// What asks for no right is open to the whole network; the list is meant to stay short.
func TestOpenRoutes(t *testing.T) {
	t.Parallel()
	open := map[string]bool{
		"GET /healthz": true, "GET /readyz": true, "GET /static/*": true, "GET /metrics": true,
		"GET /sign-in": true, "POST /sign-in": true, "POST /sign-out": true, "GET /api/v1/openapi.json": true,
	}
	s := New(Options{Control: control.New(nil, control.Options{}), Hub: notify.NewHub()})
	for name, r := range s.table {
		if r.right == anyone && !open[name] {
			t.Errorf("%s asks for no right", name)
		}
		if r.right == policy.AgentTalk {
			t.Errorf("%s is of agents, who have a listener of their own", name)
		}
	}
}
