package web_test

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// curl -d sends the form content type by default. With a token, the portal reads the body as JSON nevertheless.
func TestTokenRequestWithFormContentTypeReadAsJSON(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	chief := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	chief.call("POST", "/api/v1/projects", `{"name": "shop"}`, form...).requireStatus(t, http.StatusCreated)
	chief.call("POST", "/api/v1/projects", `name=shop`, form...).requireStatus(t, http.StatusBadRequest)
	chief.call("POST", "/api/v1/projects", `{"name": "lab"}`, "Content-Type", "text/xml").requireStatus(t, http.StatusUnsupportedMediaType)
}

func TestUnknownQueryParametersRefused(t *testing.T) {
	t.Parallel()
	chief := newPortal(t).newAPIClient("ann", fleet.RoleAdmin, nil)
	chief.call("GET", "/api/v1/vms?filer=name:web", "").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "query.filer", "There is no such parameter.")
	chief.call("GET", "/api/v1/vms?filter=name:web&limit=5", "").requireStatus(t, http.StatusOK)
}

func TestReplayedResponseHasReplayHeader(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	chief := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	send := func() answer {
		return chief.call("POST", "/api/v1/projects", `{"name": "shop"}`, "Idempotency-Key", "one").requireStatus(t, http.StatusCreated)
	}
	first, again := send(), send()
	if first.header.Get("Idempotent-Replay") != "" || again.header.Get("Idempotent-Replay") != "true" || again.body != first.body {
		t.Errorf("first %q, again %q", first.header.Get("Idempotent-Replay"), again.header.Get("Idempotent-Replay"))
	}
}
