package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"quantix/internal/fleet"
)

var deleteToken = regexp.MustCompile(`/account/tokens/[0-9a-f-]{36}/delete`)

func TestAccountPageShowsRolesAndSessionLimits(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer')", p.addProject("shop"))
	b.get("/account").is(t, http.StatusOK).has(t, "tom", ">shop</a>", "Viewer", "after 30 minutes without use", "12 hours")
}

func TestTokenSecretShownOnceAndTokenDeleted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleViewer)
	b.get("/account/tokens").is(t, http.StatusOK).has(t, "No tokens", "90 days")
	b.post("/account/tokens", url.Values{"name": {""}, "life": {"24"}}, hx("tokens")...).is(t, 422).has(t, "Give a name that says what the token is for.")
	b.post("/account/tokens", url.Values{"name": {"x"}, "life": {"99999999999"}}, hx("tokens")...).is(t, 422).has(t, "ten years")
	b.post("/account/tokens", url.Values{"name": {"ci"}, "life": {"24"}}, hx("tokens")...).is(t, http.StatusOK).has(t, "qx_", "shown only once")

	a := b.get("/account/tokens")
	a.has(t, ">ci</th>", "Valid")
	a.lacks(t, "qx_")
	path := deleteToken.FindString(a.body)
	p.signedIn("eve", fleet.RoleAdmin).get(path).is(t, http.StatusNotFound)
	b.get(path).is(t, http.StatusOK).has(t, "Delete the token ci?")
	b.post(path, url.Values{}).is(t, http.StatusSeeOther)
	b.get("/account/tokens").has(t, "No tokens")
}
