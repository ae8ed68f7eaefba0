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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/projects").requireStatus(t, http.StatusOK).contains(t, "No projects yet")
	b.post("/projects", url.Values{"name": {"Shop"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "A name has 1–63", `value="Shop"`)
	path := b.post("/projects", url.Values{"name": {"shop"}, "description": {"sells things"}}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "shop", "sells things", "No members")

	p.addUser("tom", fleet.RoleNone)
	b.get(path).contains(t, ">tom</option>")
	a := b.post(path+"/members", url.Values{"user": {"tom"}, "role": {"member"}}, htmxFormHeaders("members")...).requireStatus(t, http.StatusOK)
	a.contains(t, `href="/users/tom"`, "Change role to Viewer")
	a.excludes(t, "<html", ">tom</option>")
	b.post(path+"/members", url.Values{"user": {"tom"}, "role": {"stranger"}}, htmxFormHeaders("members")...).requireStatus(t, 422)
	b.post(path+"/members", url.Values{"user": {"tom"}, "role": {""}}).requireStatus(t, http.StatusSeeOther)
	b.get(path).contains(t, "No members")

	b.post(path+"/edit", url.Values{"name": {"store"}}).requireStatus(t, http.StatusSeeOther)
	b.get("/projects").contains(t, ">store</a>")
	b.get(path+"/delete").contains(t, "Delete the project store?")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusNotFound)
}

func TestProjectWithVMsNotDeleted(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/projects/"+string(project)+"/delete", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "The project still has 4 VMs. Delete them first.")
	// Users who may not see a project get the same response as for a missing project.
	other := p.addProject("finance")
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer')", project)
	tom.get("/projects/"+string(project)).requireStatus(t, http.StatusOK).excludes(t, "Add a member")
	tom.get("/projects/"+string(other)).requireStatus(t, http.StatusNotFound)
	tom.post("/projects/"+string(project)+"/members", url.Values{"user": {"tom"}, "role": {"member"}}).requireStatus(t, http.StatusForbidden)
}
