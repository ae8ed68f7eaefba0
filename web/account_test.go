package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"quantix/internal/fleet"
)

var deleteTokenPath = regexp.MustCompile(`/account/tokens/[0-9a-f-]{36}/delete`)

func TestAccountPageShowsRolesAndSessionLimits(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer')", p.addProject("shop"))
	b.get("/account").requireStatus(t, http.StatusOK).contains(t, "tom", ">shop</a>", "Viewer", "after 30 minutes without use", "12 hours")
}

func TestTokenSecretShownOnceAndTokenDeleted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleViewer)
	b.get("/account/tokens").requireStatus(t, http.StatusOK).contains(t, "No tokens", "90 days")
	b.post("/account/tokens", url.Values{"name": {""}, "life": {"24"}}, htmxFormHeaders("tokens")...).requireStatus(t, 422).contains(t, "Give a name that says what the token is for.")
	b.post("/account/tokens", url.Values{"name": {"x"}, "life": {"99999999999"}}, htmxFormHeaders("tokens")...).requireStatus(t, 422).contains(t, "ten years")
	b.post("/account/tokens", url.Values{"name": {"ci"}, "life": {"24"}}, htmxFormHeaders("tokens")...).requireStatus(t, http.StatusOK).contains(t, "qx_", "shown only once")

	a := b.get("/account/tokens")
	a.contains(t, ">ci</th>", "Valid")
	a.excludes(t, "qx_")
	path := deleteTokenPath.FindString(a.body)
	p.newSignedInBrowser("eve", fleet.RoleAdmin).get(path).requireStatus(t, http.StatusNotFound)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Delete the token ci?")
	b.post(path, url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get("/account/tokens").contains(t, "No tokens")
}
