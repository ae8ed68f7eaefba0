package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// createFlavor creates a flavor that is published to the project, and returns its ID.
func (g *apiClient) createFlavor(name, size string, project fleet.ProjectID) string {
	g.t.Helper()
	a := g.call(http.MethodPost, "/api/v1/flavors", `{"name":"`+name+`",`+size+`}`)
	var v struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status != http.StatusCreated || a.header.Get("Location") != "/api/v1/flavors/"+v.ID {
		g.t.Fatalf("%d %s", a.status, a.body)
	}
	if a := g.call(http.MethodPut, "/api/v1/flavors/"+v.ID+"/grants/"+string(project), ""); a.status != http.StatusNoContent {
		g.t.Fatalf("%d %s", a.status, a.body)
	}
	return v.ID
}

func TestFlavorsThroughAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red, blue := p.addProject("red"), p.addProject("blue")
	admin := p.newAPIClient("olga", fleet.RoleOperator, nil)
	member := p.newAPIClient("mia", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{red: fleet.RoleMember})
	other := p.newAPIClient("sam", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{blue: fleet.RoleMember})
	admin.call(http.MethodPost, "/api/v1/flavors", `{"name":"Small","cpus":1,"memoryMiB":256}`).requireProblem(t, 422, "name")
	admin.call(http.MethodPost, "/api/v1/flavors", `{"name":"small","memoryMiB":256}`).requireProblem(t, 422, "cpus")
	id := admin.createFlavor("small", `"cpus":1,"memoryMiB":256,"diskBytes":1073741824`, red)
	path := "/api/v1/flavors/" + id
	member.call(http.MethodGet, path, "").requireStatus(t, http.StatusOK).contains(t, `"cpus":1`, `"projectName":"red"`)
	member.call(http.MethodGet, "/api/v1/flavors", "").contains(t, id)
	other.call(http.MethodGet, path, "").requireProblem(t, http.StatusNotFound, "")
	other.call(http.MethodGet, "/api/v1/flavors", "").requireStatus(t, http.StatusOK).contains(t, `"items":[]`)
	member.call(http.MethodPatch, path, `{"cpus":64}`).requireProblem(t, http.StatusForbidden, "")
	a := admin.call(http.MethodPatch, path, `{"description":"for tests"}`).requireStatus(t, http.StatusOK)
	a.contains(t, `"description":"for tests"`, `"cpus":1`, `"generation":2`)
	admin.call(http.MethodPatch, path, `{"cpus":2}`, "If-Match", `"1"`).requireProblem(t, http.StatusConflict, "")
	admin.call(http.MethodPut, path+"/grants/none", "").requireProblem(t, http.StatusNotFound, "")
	admin.call(http.MethodPut, path+"/grants/all", "").requireStatus(t, http.StatusNoContent)
	other.call(http.MethodGet, path, "").requireStatus(t, http.StatusOK).excludes(t, "red")
	admin.call(http.MethodDelete, path+"/grants/all", "").requireStatus(t, http.StatusNoContent)
	other.call(http.MethodGet, path, "").requireProblem(t, http.StatusNotFound, "")
	admin.call(http.MethodDelete, path, "").requireStatus(t, http.StatusNoContent)
	admin.call(http.MethodGet, path, "").requireProblem(t, http.StatusNotFound, "")
}

func TestRulesOfProjectThroughAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red := p.addProject("red")
	p.addHost("h1", 0)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	member := p.newAPIClient("mia", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{red: fleet.RoleMember})
	small := admin.createFlavor("small", `"cpus":1,"memoryMiB":256`, red)
	path := "/api/v1/projects/" + string(red)
	admin.call(http.MethodPatch, path, `{"vmRules":{"locked":["pool"]}}`).requireProblem(t, 422, "vmRules.locked[0]")
	admin.call(http.MethodPatch, path, `{"vmRules":{"flavorsOnly":true,"namePattern":"red-*","firmware":"bios","locked":["firmware"]}}`).requireStatus(t, http.StatusOK).contains(t, `"namePattern":"red-*"`)
	admin.call(http.MethodPatch, path, `{"description":"x","vmRules":{"expiryDays":7}}`).requireStatus(t, http.StatusOK).contains(t, `"flavorsOnly":true`, `"expiryDays":7`)
	member.call(http.MethodGet, path, "").requireStatus(t, http.StatusOK).contains(t, `"flavorsOnly":true`)
	member.call(http.MethodPatch, path, `{"vmRules":null}`).requireProblem(t, http.StatusForbidden, "")

	create := func(name, more string) answer {
		return member.call(http.MethodPost, "/api/v1/vms", `{"projectId":"`+string(red)+`","name":"`+name+`"`+more+`}`)
	}
	create("red-1", `,"spec":{"cpus":2,"memoryMiB":512}`).requireProblem(t, 422, "spec.cpus")
	create("blue-1", `,"flavorId":"`+small+`"`).requireProblem(t, 422, "name")
	create("red-1", `,"flavorId":"none"`).requireProblem(t, 422, "flavorId")
	create("red-1", `,"flavorId":"`+small+`","spec":{"firmware":"uefi"}`).requireProblem(t, 422, "spec.firmware")
	create("red-1", `,"flavorId":"`+small+`"`).requireStatus(t, http.StatusCreated).contains(t, `"cpus":1`, `"memoryMiB":256`, `"expiresAt"`)
	create("red-2", `,"flavorId":"`+small+`","expiryDays":0`).requireStatus(t, http.StatusCreated).excludes(t, `"expiresAt"`)
	admin.call(http.MethodPatch, path, `{"vmRules":null}`).requireStatus(t, http.StatusOK).excludes(t, "vmRules")
}

func TestFlavorPages(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red := p.addProject("red")
	p.addProject("blue")
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	b.get("/flavors").requireStatus(t, http.StatusOK).contains(t, "No flavors", `href="/flavors/new"`)
	b.get("/flavors/new").requireStatus(t, http.StatusOK).contains(t, "New flavor")
	sent := url.Values{"name": {"Small"}, "cpus": {"x"}, "memoryMiB": {"1.5"}, "diskBytes": {"10"}}
	b.post("/flavors", sent).requireStatus(t, 422).contains(t, "A name has 1–63", "Enter a whole number", `value="1.5"`)
	sent.Set("name", "small")
	sent.Set("cpus", "1")
	path := b.post("/flavors", sent).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "1 vCPU, 1.5 GiB, disk 10 GiB", "Published to nobody", ">blue</option>", "All projects")
	b.get("/flavors").contains(t, `href="`+path+`"`, "Nobody")

	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", red)
	tom.get(path).requireStatus(t, http.StatusNotFound)
	a := b.post(path+"/grants", url.Values{"project": {string(red)}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusOK)
	a.contains(t, "red", "Withdraw")
	a.excludes(t, "<html", ">red</option>")
	page := tom.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "1.5 GiB", "red")
	page.excludes(t, "flavor-form", "Withdraw", "olga")
	tom.get("/flavors").contains(t, "small")
	tom.get("/flavors/new").requireStatus(t, http.StatusForbidden)
	tom.post(path+"/grants", url.Values{"project": {"all"}}).requireStatus(t, http.StatusForbidden)

	sent.Set("cpus", "2")
	b.post(path+"/edit", sent).requireStatus(t, http.StatusSeeOther)
	b.get("/flavors").contains(t, ">2</td>")
	b.get(path+"/delete").contains(t, "Delete the flavor small?")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusNotFound)
}

func TestProjectRulesPage(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red := p.addProject("red")
	p.execSQL(`INSERT INTO security_groups (id, project_id, name, spec) VALUES ('g1', $1, 'base', '{"rules":[]}')`, red)
	path := "/projects/" + string(red) + "/rules"
	b := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", red)
	b.get("/projects/"+string(red)).contains(t, `href="`+path+`"`)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Members can only choose flavors", "No flavor is published", "base")
	sent := url.Values{"flavorsOnly": {"yes"}, "namePattern": {"Red-*"}, "firmware": {"uefi"}, "expiryDays": {"30"}, "expiryStops": {"yes"}, "group.g1": {"yes"}, "lock.firmware": {"yes"}, "lock.pool": {"yes"}}
	a := b.post(path, sent, htmxFormHeaders("rules-form")...).requireStatus(t, 422)
	a.contains(t, "A pattern has 1–63", "default pool", `value="Red-*"`)
	sent.Set("namePattern", "red-*")
	sent.Del("lock.pool")
	b.post(path, sent).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows(`projects WHERE vm_rules = '{"flavorsOnly":true,"namePattern":"red-*","firmware":"uefi","expiryDays":30,"expiryStops":true,"securityGroups":["g1"],"locked":["firmware"]}'`); n != 1 {
		t.Error("the rules are not stored")
	}
	page := tom.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "red-*", "UEFI", "30 days after creation; then the VM is shut down", "base", "must use it", "can choose")
	page.excludes(t, "rules-form")
	tom.post(path, sent).requireStatus(t, http.StatusForbidden)
	b.post("/projects/"+string(red)+"/edit", url.Values{"name": {"red"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows(`projects WHERE vm_rules->>'firmware' = 'uefi'`); n != 1 {
		t.Error("an edit of the project's name changed its rules")
	}
	sam := p.newSignedInBrowser("sam", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'sam', 'member')", p.addProject("blue"))
	sam.get(path).requireStatus(t, http.StatusNotFound)
}

func TestFormOfNewVMFollowsRulesOfProject(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red := p.addProject("red")
	host := p.addHost("h1", 0)
	pool := p.addPool("fast", host)
	p.addPool("slow", host)
	p.addNetwork("default", host)
	p.addNetwork("wan", host)
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", red)
	form := tom.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, `name="spec.cpus"`, `name="expiryDays"`)
	form.excludes(t, `name="flavorId"`)

	p.execSQL(`INSERT INTO flavors (id, name, cpus, memory_mib, disk_bytes) VALUES ('f1', 'small', 2, 512, 5368709120), ('f2', 'hidden', 1, 256, 0)`)
	p.execSQL(`INSERT INTO flavor_grants (flavor_id, project_id, granted_by) VALUES ('f1', $1, 'ann')`, red)
	form = tom.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, `name="flavorId"`, ">Custom</option>", "small · 2 vCPUs, 512 MiB, disk 5 GiB", `data-show-when="flavorId="`)
	form.excludes(t, "hidden ·")

	// The choice of a flavor fills in the size of the first disk.
	sent := url.Values{
		"key": {keyFieldPattern.FindStringSubmatch(form.body)[1]}, "name": {"red-1"}, "projectId": {string(red)}, "flavorId": {"f1"}, "source": {"blank"}, "spec.cpus": {"9"}, "spec.memoryMiB": {"9", "GiB"}, "spec.firmware": {"bios"},
		"spec.disks[0].source": {"empty"}, "spec.disks[0].poolId": {string(pool)}, "spec.disks[0].sizeBytes": {"20"}, "begin": {"flavor"}, "expiryDays": {""},
	}
	redrawn := tom.post("/vms", sent, htmxFormHeaders("vm-form")...).requireStatus(t, http.StatusOK)
	redrawn.contains(t, "Set by the flavor.", `value="5"`)
	sent.Del("begin")
	tom.post("/vms", sent).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows(`vms WHERE name = 'red-1' AND spec @> '{"cpus":2,"memoryMiB":512}' AND (spec->'disks'->0->>'sizeBytes')::bigint = 5368709120`); n != 1 {
		t.Error("the VM does not have the flavor's size")
	}

	p.execSQL(`UPDATE projects SET default_pool_id = $2, default_network_id = (SELECT id FROM networks WHERE name = 'default'),
		vm_rules = '{"flavorsOnly":true,"namePattern":"red-*","firmware":"uefi","expiryDays":30,"locked":["pool","network","firmware","expiry"]}' WHERE id = $1`, red, pool)
	form = tom.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, "Choose a size", "Set by the project.", `value="UEFI" readonly`, `value="30 days after creation" readonly`, "names like red-*", `name="spec.firmware" value="uefi"`, `type="text" value="fast" readonly`, `type="text" value="default" readonly`)
	form.excludes(t, `name="spec.cpus"`, ">Custom</option>", ">slow", `name="expiryDays"`)
	sent.Set("key", keyFieldPattern.FindStringSubmatch(form.body)[1])
	sent.Set("name", "blue-1")
	sent.Set("flavorId", "")
	sent.Del("expiryDays")
	sent.Del("spec.cpus")
	sent.Del("spec.memoryMiB")
	refused := tom.post("/vms", sent).requireStatus(t, 422)
	refused.contains(t, "names like red-*, where", "The project allows only the sizes of its flavors: small")
	if strings.Count(refused.body, "only the sizes of its flavors") > 2 {
		t.Error("the error about the size is repeated")
	}

	// The summary has the flavor's size, and complains about no name before one is typed.
	summary := maps.Clone(sent)
	summary.Set("name", "")
	summary.Set("flavorId", "f1")
	hard := int64(100)
	if _, err := p.control.SetQuota(t.Context(), fleet.Actor{UserID: "chief", Name: "chief", Role: fleet.RoleAdmin}, red, quota.Quota{CPUs: quota.Limit{Hard: &hard}}); err != nil {
		t.Fatal(err)
	}
	used, err := p.control.ProjectUsage(t.Context(), fleet.SystemActor, red)
	if err != nil {
		t.Fatal(err)
	}
	shown := tom.post("/vms/new/summary", summary, "HX-Request", "true").requireStatus(t, http.StatusOK)
	shown.contains(t, "2 vCPUs", "512 MiB")
	valid := maps.Clone(summary)
	valid.Set("spec.firmware", "uefi")
	tom.post("/vms/new/summary", valid, "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, fmt.Sprintf("%d of 100 vCPUs", used.Usage.CPUs+2))
	shown.excludes(t, "names like")
	summary.Set("flavorId", "")
	tom.post("/vms/new/summary", summary, "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, "0 vCPUs", "0 B")

	// Administrators are free, and see no fixed fields.
	ann := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	free := ann.get("/vms/new?project="+string(red)).requireStatus(t, http.StatusOK)
	free.contains(t, ">Custom</option>", "hidden ·", `name="spec.cpus"`, `value="30"`)
	free.excludes(t, "Set by the project.")
}
