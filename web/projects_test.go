package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestProjectCreatedEditedAndDeletedWithMembers(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/projects").is(t, http.StatusOK).has(t, "No projects yet")
	b.post("/projects", url.Values{"name": {"Shop"}}, hx("dialog")...).is(t, 422).has(t, "A name has 1–63", `value="Shop"`)
	path := b.post("/projects", url.Values{"name": {"shop"}, "description": {"sells things"}}).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(path).is(t, http.StatusOK).has(t, "shop", "sells things", "No members")

	p.addUser("tom", fleet.RoleNone)
	b.get(path).has(t, ">tom</option>")
	a := b.post(path+"/members", url.Values{"user": {"tom"}, "role": {"member"}}, hx("members")...).is(t, http.StatusOK)
	a.has(t, `href="/users/tom"`, "Change role to Viewer")
	a.lacks(t, "<html", ">tom</option>")
	b.post(path+"/members", url.Values{"user": {"tom"}, "role": {"owner"}}, hx("members")...).is(t, 422)
	b.post(path+"/members", url.Values{"user": {"tom"}, "role": {""}}).is(t, http.StatusSeeOther)
	b.get(path).has(t, "No members")

	b.post(path+"/edit", url.Values{"name": {"store"}}).is(t, http.StatusSeeOther)
	b.get("/projects").has(t, ">store</a>")
	b.get(path+"/delete").has(t, "Delete the project store?")
	b.post(path+"/delete", url.Values{}).is(t, http.StatusSeeOther)
	b.get(path).is(t, http.StatusNotFound)
}

func TestProjectWithVMsNotDeleted(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.post("/projects/"+string(project)+"/delete", url.Values{}, hx("dialog")...).is(t, 422).has(t, "The project still has 4 VMs. Delete them first.")
	// Users who may not see a project get the same response as for a missing project.
	other := p.addProject("finance")
	tom := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer')", project)
	tom.get("/projects/"+string(project)).is(t, http.StatusOK).lacks(t, "Add a member")
	tom.get("/projects/"+string(other)).is(t, http.StatusNotFound)
	tom.post("/projects/"+string(project)+"/members", url.Values{"user": {"tom"}, "role": {"member"}}).is(t, http.StatusForbidden)
}
