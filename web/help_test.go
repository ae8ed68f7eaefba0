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
	p.addHost("inventory-host", 0)
	signedOut := p.newBrowser()
	for path, want := range map[string][]string{
		"/help":                    {"Quick start", `href="/help/storage"`},
		"/help/storage":            {`<h2 id="create-a-pool">`, `href="#create-a-pool"`, `href="/help/virtual-machines"`},
		"/help?q=add+a+host":       {`href="/help/install#add-a-host"`},
		"/help?q=<script>alert(1)": {"&lt;script&gt;"},
		"/help?q=" + "xyzzy+plugh": {"No section of the manual matches"},
	} {
		a := signedOut.get(path).requireStatus(t, http.StatusOK)
		a.contains(t, want...)
		a.contains(t, "/sign-in")
		a.excludes(t, "inventory-host", `id="tree"`, `id="dock"`, "data-user", "<script>alert")
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "style-src 'self'") {
			t.Errorf("%s: the content security policy is %q", path, csp)
		}
	}
	signedOut.get("/help/no-such-chapter").requireStatus(t, http.StatusNotFound)
	signedOut.get("/help?q="+strings.Repeat("x", 201)).requireStatus(t, http.StatusBadRequest)
	p.newSignedInBrowser("mara", fleet.RoleAdmin).get("/help/storage").requireStatus(t, http.StatusOK).contains(t, "data-user", "mara", `id="search"`)
	p.newSignedInBrowser("nora", fleet.RoleNone).get("/help/storage").requireStatus(t, http.StatusOK).excludes(t, `id="search"`)
}

func TestGlobalSearchFindsManualSections(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/search?q=snapshot+schedule").requireStatus(t, http.StatusOK).contains(t, "Help", `href="/help/snapshots#schedules"`)
	b.get("/search/suggest?q=snapshot+schedule", "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, `href="/help/snapshots#schedules"`)
}
