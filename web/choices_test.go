package web_test

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

func TestSelectOptionsRequirePermission(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addHost("h1", 0)
	shop, other := p.addProject("shop"), p.addProject("other")
	tom := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", shop)
	a := tom.get("/choices/projects", "HX-Request", "true").is(t, http.StatusOK)
	a.has(t, "shop")
	a.lacks(t, "other")
	tom.get("/choices/hosts", "HX-Request", "true").is(t, http.StatusOK).lacks(t, "h1")
	tom.get("/choices/members?of="+string(shop)).is(t, http.StatusForbidden)
	tom.get("/choices/grants?of="+string(fleet.NewID[fleet.NetworkID]())).is(t, http.StatusForbidden)
	tom.get("/choices/members?of="+string(other)).is(t, http.StatusForbidden)
	tom.get("/choices/users").is(t, http.StatusNotFound)
}
