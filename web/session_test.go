package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/static"
)

func TestSignInReturnsToRequestedPageAndSignOutEndsSession(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addUser("mara", fleet.RoleAdmin)
	b := p.newBrowser()

	a := b.get("/vms?filter=state:running").requireStatus(t, http.StatusSeeOther)
	if to := a.header.Get("Location"); to != "/sign-in?next=%2Fvms%3Ffilter%3Dstate%3Arunning" {
		t.Fatalf("without a session the page redirects to %q", to)
	}
	b.get("/sign-in?next=%2Fvms").requireStatus(t, http.StatusOK).contains(t, `name="next" value="/vms"`)
	a = b.post("/sign-in", url.Values{"name": {"mara"}, "password": {"wrong"}}).requireStatus(t, http.StatusUnauthorized)
	a.contains(t, "The user name or the password is wrong.", `value="mara"`)
	a = b.post("/sign-in", url.Values{"name": {"mara"}, "password": {goodPassword}, "next": {"/tasks"}}).requireStatus(t, http.StatusSeeOther)
	if to := a.header.Get("Location"); to != "/tasks" {
		t.Errorf("signing in redirects to %q", to)
	}
	cookie := a.header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("the session's cookie is %q", cookie)
	}
	b.get("/tasks").requireStatus(t, http.StatusOK).contains(t, "<h1>Tasks</h1>")

	b.post("/sign-out", nil).requireStatus(t, http.StatusSeeOther)
	b.get("/tasks").requireStatus(t, http.StatusSeeOther)
	b.get("/tasks", "HX-Request", "true").requireStatus(t, http.StatusUnauthorized)
}

func TestSignInRedirectsOnlyToThisSite(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addUser("mara", fleet.RoleAdmin)
	for _, next := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/\t/evil.example"} {
		a := p.newBrowser().post("/sign-in", url.Values{"name": {"mara"}, "password": {goodPassword}, "next": {next}})
		if to := a.header.Get("Location"); to != "/" {
			t.Errorf("next=%q redirects to %q", next, to)
		}
	}
}

func TestFirstPasswordMustBeChanged(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addUser("mara", fleet.RoleAdmin)
	p.execSQL("UPDATE users SET must_change = true")
	b := p.newBrowser()
	a := b.post("/sign-in", url.Values{"name": {"mara"}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
	if to := a.header.Get("Location"); !strings.HasPrefix(to, "/account/password") {
		t.Fatalf("signing in redirects to %q", to)
	}
	if to := b.get("/vms").requireStatus(t, http.StatusSeeOther).header.Get("Location"); to != "/account/password" {
		t.Errorf("before the change, pages redirect to %q", to)
	}
	b.post("/account/password", url.Values{"old": {goodPassword}, "new": {"a new long password"}, "again": {"another one"}}).
		requireStatus(t, http.StatusUnprocessableEntity).contains(t, "differ")
	b.post("/account/password", url.Values{"old": {goodPassword}, "new": {"a new long password"}, "again": {"a new long password"}}).
		requireStatus(t, http.StatusSeeOther)
	b.get("/tasks").requireStatus(t, http.StatusOK)
}

func TestPasswordChangeDeletesAPITokensByDefault(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/account/tokens", url.Values{"name": {"ci"}}).requireStatus(t, http.StatusOK)
	tokens := func(want int) {
		t.Helper()
		var n int
		if err := p.pool.QueryRow(t.Context(), "SELECT count(*) FROM tokens").Scan(&n); err != nil || n != want {
			t.Errorf("%d API tokens (%v), want %d", n, err, want)
		}
	}
	b.get("/account/password").requireStatus(t, http.StatusOK).contains(t, `name="endTokens" value="yes" checked`)
	change := url.Values{"old": {goodPassword}, "new": {"a new long password"}, "again": {"a new long password"}}
	b.post("/account/password", change).requireStatus(t, http.StatusSeeOther)
	tokens(1)
	change = url.Values{"old": {"a new long password"}, "new": {goodPassword}, "again": {goodPassword}, "endTokens": {"yes"}}
	b.post("/account/password", change).requireStatus(t, http.StatusSeeOther)
	tokens(0)
}

func TestRefreshesDoNotExtendSession(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	var before, after time.Time
	expiry := func(into *time.Time) {
		t.Helper()
		if err := p.pool.QueryRow(t.Context(), "SELECT expiry FROM sessions").Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	expiry(&before)
	b.getFragment("/tasks/recent", "dock-body").requireStatus(t, http.StatusOK)
	if expiry(&after); !after.Equal(before) {
		t.Error("a page's automatic refresh extended the session")
	}
}

func TestCrossOriginPostRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/sign-out", nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").requireStatus(t, http.StatusForbidden)
	b.get("/tasks").requireStatus(t, http.StatusOK)
}

func TestPagesHaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	h := p.newBrowser().get("/sign-in").header
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, not %q", name, h.Get(name), want)
		}
	}
	if !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Error("other sites may show the page in a frame")
	}
	if h.Get("Strict-Transport-Security") != "" {
		t.Error("HSTS header without TLS")
	}
	for file, policy := range map[string]bool{"app.css": false, "js/live-worker.js": true, "mark.svg": true} {
		h := p.newBrowser().get(static.Path(file)).header
		if (h.Get("Content-Security-Policy") != "") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "" {
			t.Errorf("%s has the headers %v", file, h)
		}
	}
}

// A cookie stores the view and the grouping of the tree, so links to pages need not contain them.
func TestTreeViewAndGroupingStoredInCookie(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/vms/"+string(vms["web-01"])).requireStatus(t, http.StatusOK)
	a.contains(t, `id="tree-hosts"`, `aria-expanded="true"`, `aria-current="page"`)
	b.get("/?tree=vms&group=env").requireStatus(t, http.StatusOK).contains(t, `id="tree-vms"`, ">shop<", `value="env"`)
	b.get("/tasks").requireStatus(t, http.StatusOK).contains(t, `id="tree-vms"`, `value="env"`)
	b.get("/tasks?group=Not+A+Key").requireStatus(t, http.StatusOK).contains(t, `value="env"`)
	b.getFragment("/tree/hosts", "tree-hosts").requireStatus(t, http.StatusOK).contains(t, "host-1")
	b.get("/tree/nosuch").requireStatus(t, http.StatusNotFound)
}

func TestKnownBrowserExemptFromSignInThrottle(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.execSQL("UPDATE login_throttle SET failures = 100, last_at = now()")
	enter := url.Values{"name": {"mara"}, "password": {goodPassword}}
	p.newBrowser().post("/sign-in", enter).requireStatus(t, http.StatusTooManyRequests)
	b.post("/sign-out", nil).requireStatus(t, http.StatusSeeOther)
	again := b.post("/sign-in", enter).requireStatus(t, http.StatusSeeOther)
	for _, cookie := range again.header.Values("Set-Cookie") {
		name, value, _ := strings.Cut(cookie, "=")
		if name != "quantix-browser" {
			continue
		}
		for _, want := range []string{"HttpOnly", "SameSite=Strict", "Max-Age=15552000", "Path=/"} {
			if !strings.Contains(value, want) {
				t.Errorf("the cookie %q lacks %s", cookie, want)
			}
		}
		return
	}
	t.Error("the browser gets no cookie that marks it as known")
}
