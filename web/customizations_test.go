package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

const specBody = `"firstBoot":{"kind":"cloud-init","cloudInit":{"hostname":"{{vm.name}}"}}}`

func TestCustomizationsPublishedThroughAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red, blue := p.addProject("red"), p.addProject("blue")
	admin := p.newAPIClient("olga", fleet.RoleOperator, nil)
	member := p.newAPIClient("mia", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{red: fleet.RoleMember})
	other := p.newAPIClient("sam", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{blue: fleet.RoleMember})
	const list = "/api/v1/customizations"
	create := func(g *apiClient, body string) string {
		t.Helper()
		a := g.call(http.MethodPost, list, body+specBody).requireStatus(t, http.StatusCreated)
		var v fleet.Customization
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			t.Fatal(err)
		}
		return list + "/" + string(v.ID)
	}
	path := create(admin, `{"name":"web",`)
	admin.call(http.MethodGet, path, "").contains(t, `"grants":[]`)
	member.call(http.MethodGet, path, "").requireProblem(t, http.StatusNotFound, "")
	admin.call(http.MethodPut, path+"/grants/"+string(red), "").requireStatus(t, http.StatusNoContent)
	member.call(http.MethodGet, path, "").requireStatus(t, http.StatusOK).contains(t, `"projectName":"red"`)
	member.call(http.MethodGet, list, "").contains(t, path[len(list)+1:])
	other.call(http.MethodGet, list, "").requireStatus(t, http.StatusOK).contains(t, `"items":[]`)
	member.call(http.MethodPut, path+"/grants/all", "").requireProblem(t, http.StatusForbidden, "")
	admin.call(http.MethodPut, path+"/grants/none", "").requireProblem(t, http.StatusNotFound, "")
	admin.call(http.MethodPut, path+"/grants/all", "").requireStatus(t, http.StatusNoContent)
	other.call(http.MethodGet, path, "").requireStatus(t, http.StatusOK).excludes(t, "red", "olga\",\"at")
	admin.call(http.MethodDelete, path+"/grants/all", "").requireStatus(t, http.StatusNoContent)
	admin.call(http.MethodDelete, path+"/grants/"+string(red), "").requireStatus(t, http.StatusNoContent)
	member.call(http.MethodGet, path, "").requireProblem(t, http.StatusNotFound, "")

	public := create(admin, `{"name":"common","public":true,`)
	other.call(http.MethodGet, public, "").requireStatus(t, http.StatusOK)
	own := create(member, `{"name":"own","projectId":"`+string(red)+`",`)
	admin.call(http.MethodPut, own+"/grants/all", "").requireProblem(t, http.StatusConflict, "")
	member.call(http.MethodPost, list, `{"name":"x","public":true,"projectId":"`+string(red)+`",`+specBody).requireProblem(t, 422, "public")
	member.call(http.MethodPost, list, `{"name":"x","public":true,`+specBody).requireProblem(t, http.StatusForbidden, "")
}

func TestCustomizationPublishedOnItsPage(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red, blue := p.addProject("red"), p.addProject("blue")
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", red)
	b.get("/customizations/new").contains(t, ">Fleet-wide</option>", `name="public"`, "until you publish it on its page")
	tom.get("/customizations/new").excludes(t, "Fleet-wide", `name="public"`)
	sent := url.Values{"name": {"web"}, "projectId": {""}, "firstBoot.kind": {"cloud-init"}, "firstBoot.cloudInit.hostname": {"web"}}
	path := b.post("/customizations", sent).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(path, "/customizations/") {
		t.Fatalf("the form leads to %s, not to the page that publishes the spec", path)
	}
	b.get("/customizations").contains(t, "published to nobody")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "No project can use this customization spec yet.", ">blue</option>", "All projects")
	tom.get(path).requireStatus(t, http.StatusNotFound)
	tom.get("/customizations").excludes(t, path)

	b.post(path+"/grants", url.Values{"project": {"none"}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusNotFound)
	a := b.post(path+"/grants", url.Values{"project": {string(red)}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusOK)
	a.contains(t, "red", "Withdraw; VMs do not change")
	a.excludes(t, "<html", ">red</option>", "customization-form")
	b.get("/customizations").contains(t, "<td>1 project</td>")
	page := tom.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "fleet-wide", "Only users who may change the spec")
	page.excludes(t, "Published to", "Withdraw", "grants")
	all := tom.get("/customizations").requireStatus(t, http.StatusOK)
	all.contains(t, "<td>fleet-wide</td>")
	all.excludes(t, "1 project", "blue")
	tom.post(path+"/grants", url.Values{"project": {"all"}}).requireStatus(t, http.StatusForbidden)
	vera := p.newSignedInBrowser("vera", fleet.RoleViewer)
	page = vera.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "Published to", "red")
	page.excludes(t, "Withdraw")

	// The form of a new VM in a project without the grant does not offer the spec.
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", blue)
	tom.get("/vms/new?project="+string(red)).contains(t, ">web</option>")
	tom.get("/vms/new?project="+string(blue)).excludes(t, ">web</option>")

	b.post(path+"/grants", url.Values{"project": {string(red)}, "revoke": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	tom.get(path).requireStatus(t, http.StatusNotFound)
	sent.Set("name", "common")
	sent.Set("public", "yes")
	sent.Set("projectId", string(red))
	b.post("/customizations", sent, htmxFormHeaders("customization-form")...).requireStatus(t, 422).contains(t, "Only fleet-wide specs are published")
	sent.Set("projectId", "")
	if to := b.post("/customizations", sent).requireStatus(t, http.StatusSeeOther).header.Get("Location"); to != "/customizations" {
		t.Errorf("the form of a published spec leads to %s", to)
	}
	b.get("/customizations").contains(t, "<td>every project</td>")
}
