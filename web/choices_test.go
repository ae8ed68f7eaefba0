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
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", shop)
	a := tom.get("/choices/projects", "HX-Request", "true").requireStatus(t, http.StatusOK)
	a.contains(t, "shop")
	a.excludes(t, "other")
	tom.get("/choices/hosts", "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, "h1")
	tom.get("/choices/members?of="+string(shop)).requireStatus(t, http.StatusForbidden)
	tom.get("/choices/grants?of="+string(fleet.NewID[fleet.NetworkID]())).requireStatus(t, http.StatusForbidden)
	tom.get("/choices/members?of="+string(other)).requireStatus(t, http.StatusForbidden)
	tom.get("/choices/users").requireStatus(t, http.StatusNotFound)
}
