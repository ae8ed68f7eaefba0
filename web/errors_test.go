package web_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestUnknownPathsReturnNotFound(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/nowhere").requireStatus(t, http.StatusNotFound).contains(t, "There is no such page.", `class="top"`)
	p.newBrowser().get("/nowhere").requireStatus(t, http.StatusNotFound).contains(t, "There is no such page.", `class="gate"`)
	b.send(http.MethodDelete, "/vms", nil).requireStatus(t, http.StatusMethodNotAllowed)
	a := b.get("/api/v1/nowhere").requireStatus(t, http.StatusNotFound)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the API answers %q", got)
	}
}

func TestTooLargeFormRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/vms", url.Values{"description": {strings.Repeat("x", 100<<10)}}).requireStatus(t, http.StatusRequestEntityTooLarge)
}

// A client whose body is too large can read the reason, even with "Connection: close" or without a Content-Length.
func TestClientReadsReasonForTooLargeBody(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	bearer := p.newAPIClient("ann", fleet.RoleAdmin, nil).token
	closing := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	staying := http.Client{Transport: &http.Transport{}}
	defer staying.CloseIdleConnections()
	for name, sender := range map[string]*http.Client{"closing": &closing, "staying": &staying} {
		for of, c := range map[string]struct {
			method, path string
			length       int64
			status       int
		}{
			"announced":   {http.MethodPost, "/vms", 8 << 20, http.StatusRequestEntityTooLarge},
			"unannounced": {http.MethodPost, "/vms", -1, http.StatusRequestEntityTooLarge},
			"file":        {http.MethodPut, "/pools/p/uploads/x.raw", 8 << 20, http.StatusNotFound},
			"pipe":        {http.MethodPut, "/pools/p/uploads/x.raw", -1, http.StatusBadRequest},
		} {
			for range 10 {
				req, err := http.NewRequestWithContext(t.Context(), c.method, p.url+"/api/v1"+c.path, io.LimitReader(endlessSpaces{}, 8<<20))
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = c.length
				req.Header.Set("Authorization", "Bearer "+bearer)
				req.Header.Set("Content-Type", "application/json")
				res, err := sender.Do(req)
				if err != nil {
					t.Fatalf("%s, %s: %v", of, name, err)
				}
				res.Body.Close()
				if res.StatusCode != c.status {
					t.Fatalf("%s, %s: %d", of, name, res.StatusCode)
				}
			}
		}
	}
}

// endlessSpaces is an endless reader of spaces.
type endlessSpaces struct{}

func (endlessSpaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestUnexpectedErrorsShowLogReference(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.execSQL("ALTER TABLE tasks RENAME COLUMN note TO oops")
	a := b.get("/tasks").requireStatus(t, http.StatusInternalServerError)
	_, rest, found := strings.Cut(a.body, `<p class="mono">`)
	ref, _, _ := strings.Cut(rest, "<")
	if !found || len(ref) != 10 {
		t.Fatalf("no reference: %s", a.pageContent())
	}
	a.excludes(t, "42703", "column")
	if log := p.log.String(); !strings.Contains(log, ref) || !strings.Contains(log, "42703") {
		t.Error("the log does not contain the reference and the database's error")
	}
}

func TestUnreachableDatabaseReported(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.pool.Close()
	b.get("/vms").requireStatus(t, http.StatusServiceUnavailable).contains(t, "The database does not answer.", "Try again")
	b.get("/healthz").requireStatus(t, http.StatusOK)
	b.get("/readyz").requireStatus(t, http.StatusServiceUnavailable)
}

func TestRefusedRequestsAudited(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mia", fleet.RoleNone)
	b.get("/users/0190?secret=1").requireStatus(t, http.StatusForbidden)
	token, err := p.control.CreateToken(t.Context(), fleet.Actor{UserID: "mia"}, "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	b.get("/api/v1/hosts", "Authorization", "Bearer "+token.Secret).requireStatus(t, http.StatusForbidden)
	for range 6 {
		p.newBrowser().post("/sign-in", url.Values{"name": {"mia"}, "password": {"wrong password"}})
	}
	for _, where := range []string{
		"action = 'user.refused' AND user_id = 'mia' AND detail LIKE 'GET /users/:id: You do not have permission%'",
		"action = 'user.refused' AND user_id = 'mia' AND detail LIKE 'GET /api/v1/hosts: %'",
		"action = 'user.throttled' AND user_id IS NULL AND detail LIKE 'POST /sign-in: Too many failed attempts.%'",
	} {
		if p.countRows("audit WHERE "+where) != 1 {
			t.Errorf("the audit log has no line for: %s", where)
		}
	}
}
