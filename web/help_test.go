package web_test

import (
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestManualShownWithoutSignIn(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addHost("host-1", 0)
	signedOut := p.browser()
	for path, want := range map[string][]string{
		"/help":                    {"Quick start", `href="/help/storage"`},
		"/help/storage":            {`<h2 id="create-a-pool">`, `href="#create-a-pool"`, `href="/help/virtual-machines"`},
		"/help?q=add+a+host":       {`href="/help/install#add-a-host"`},
		"/help?q=<script>alert(1)": {"&lt;script&gt;"},
		"/help?q=" + "xyzzy+plugh": {"No section of the manual matches"},
	} {
		a := signedOut.get(path).is(t, http.StatusOK)
		a.has(t, want...)
		a.has(t, "/sign-in")
		a.lacks(t, "host-1", `id="tree"`, `id="dock"`, "data-user", "<script>alert")
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "style-src 'self'") {
			t.Errorf("%s: the content security policy is %q", path, csp)
		}
	}
	signedOut.get("/help/no-such-chapter").is(t, http.StatusNotFound)
	signedOut.get("/help?q="+strings.Repeat("x", 201)).is(t, http.StatusBadRequest)
	p.signedIn("mara", fleet.RoleAdmin).get("/help/storage").is(t, http.StatusOK).has(t, "data-user", "mara", `id="search"`)
	p.signedIn("nora", fleet.RoleNone).get("/help/storage").is(t, http.StatusOK).lacks(t, `id="search"`)
}

func TestGlobalSearchFindsManualSections(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/search?q=snapshot+schedule").is(t, http.StatusOK).has(t, "Help", `href="/help/snapshots#schedules"`)
	b.get("/search/suggest?q=snapshot+schedule", "HX-Request", "true").is(t, http.StatusOK).has(t, `href="/help/snapshots#schedules"`)
}
