package web_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// A tenant's start page has the quotas of the projects, VMs that expire soon, and tasks. Without VMs it has the next step.
func TestTenantDashboardShowsOwnProjects(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	empty := p.addProject("empty")
	eight := int64(8)
	if _, err := p.control.SetQuota(t.Context(), fleet.SystemActor, project, quota.Quota{VMs: quota.Limit{Hard: &eight}}); err != nil {
		t.Fatal(err)
	}
	p.execSQL(`UPDATE vms SET expires_at = now() + interval '3 days', expiry_stops = true WHERE id = $1`, vms["web-01"])
	mia := p.newTenantBrowser("mia", project)
	a := mia.get("/").requireStatus(t, http.StatusOK)
	a.contains(t, "4 of 8", "Expire soon", ">web-01</a>", "It is shut down", "Tasks of your projects", "VMs by state", `href="/projects/`+string(project)+`/usage"`)
	a.excludes(t, "Capacity", "hosts healthy", "discovered VMs", "host-1")
	p.newSignedInBrowser("mara", fleet.RoleAdmin).get("/").requireStatus(t, http.StatusOK).contains(t, "Capacity", "discovered VMs")

	p.newTenantBrowser("nina", empty).get("/").requireStatus(t, http.StatusOK).contains(t, "Create your first VM.", `href="/vms/new"`)
	vic := p.newSignedInBrowser("vic", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'vic', 'viewer')", empty)
	a = vic.get("/").requireStatus(t, http.StatusOK)
	a.contains(t, "Your projects have no VMs.")
	a.excludes(t, `href="/vms/new"`)
}

// The form of an existing VM shows what the project's quota is after the edit, while the user types.
func TestEditFormPreviewsQuota(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	soft := int64(5)
	if _, err := p.control.SetQuota(t.Context(), fleet.SystemActor, project, quota.Quota{CPUs: quota.Limit{Soft: &soft}, NICs: quota.Limit{Soft: &soft}}); err != nil {
		t.Fatal(err)
	}
	mia := p.newTenantBrowser("mia", project)
	at := "/vms/" + string(vms["web-02"])
	mia.get(at+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, `id="edit-quota"`)
	form := url.Values{"begin": {"headings"}, "generation": {"1"}, "name": {"web-02"}, "spec.cpus": {"64"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"}}
	a := mia.post(at+"/edit", form, htmxFormHeaders("")...).requireStatus(t, http.StatusOK)
	a.contains(t, `id="edit-quota"`, `hx-swap-oob="true"`, "vCPUs, soft limit 5", "quota after this:")
	form.Set("spec.cpus", "many")
	mia.post(at+"/edit", form, htmxFormHeaders("")...).requireStatus(t, http.StatusOK).excludes(t, "many vCPUs")
}

// A tenant's form of a new VM has no choice of host or cluster, and no field that only operators may set.
func TestNewVMFormOfTenantHasNoHostsOrOperatorFields(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	p.execSQL(`INSERT INTO clusters (id, name, spec) VALUES ($1, 'second', '{}')`, fleet.NewID[fleet.ClusterID]())
	chief, mia := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newTenantBrowser("mia", project)
	operators := []string{`name="hostId"`, `name="clusterId"`, `name="spec.memory.hugePageKiB"`}
	chief.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, operators...)
	a := mia.get("/vms/new").requireStatus(t, http.StatusOK)
	a.contains(t, `name="projectId"`)
	a.excludes(t, append(operators, "Requires permission to change infrastructure")...)
}

// The project menu first has the projects that the browser has shown last.
func TestProjectSwitcherRemembersRecentProjects(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	var ids []fleet.ProjectID
	for i := range 30 {
		ids = append(ids, p.addProject(fmt.Sprintf("team-%02d", i)))
	}
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/projects/switch", "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, "Recent")
	for _, i := range []int{7, 20, 7, 25} {
		b.get("/vms?project="+string(ids[i])).requireStatus(t, http.StatusOK)
	}
	list := b.get("/projects/switch", "HX-Request", "true").requireStatus(t, http.StatusOK).body
	recent, _, _ := strings.Cut(list, "By name")
	if at := func(i int) int { return strings.Index(recent, string(ids[i])) }; at(25) < 0 || at(25) > at(7) || at(7) > at(20) || at(20) < 0 {
		t.Errorf("the recent projects are %s", recent)
	}
	tom := p.newTenantBrowser("tom", ids[1])
	tom.get("/vms?project="+string(ids[7])).requireStatus(t, http.StatusOK)
	tom.get("/projects/switch", "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, string(ids[7]))
}

// The forms of new pools and networks publish to no project by default.
func TestFormsOfPoolsAndNetworksPublish(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop := p.addProject("shop")
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/pools/new").requireStatus(t, http.StatusOK).contains(t, `name="publish"`, `<option value="" selected>No project</option>`)
	pool := func(name string, more url.Values) answer {
		form := url.Values{"name": {name}, "kind": {"dir"}, "path": {"/srv/" + name}}
		maps.Copy(form, more)
		return b.post("/pools", form)
	}
	granted := func(name string) (n int) {
		return p.countRows(`pool_grants g JOIN pools p ON p.id = g.pool_id WHERE p.name = '` + name + `'`)
	}
	pool("nobody", nil).requireStatus(t, http.StatusSeeOther)
	pool("chosen", url.Values{"publish": {"some"}, "publishProject": {string(shop)}}).requireStatus(t, http.StatusSeeOther)
	pool("named", url.Values{"publish": {"some"}, "publishNames": {"Shop, "}}).requireStatus(t, http.StatusSeeOther)
	pool("forgotten", url.Values{"publish": {"some"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose at least one project")
	pool("unknown", url.Values{"publish": {"some"}, "publishNames": {"nosuch"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "There is no project “nosuch”.")
	if granted("nobody") != 0 || granted("chosen") != 1 || granted("named") != 1 {
		t.Errorf("published: %d %d %d", granted("nobody"), granted("chosen"), granted("named"))
	}
	b.post("/networks", url.Values{"name": {"lan"}, "mode": {"isolated"}, "publish": {"all"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows(`network_grants g JOIN networks n ON n.id = g.network_id WHERE n.name = 'lan' AND g.project_id IS NULL`); n != 1 {
		t.Errorf("the network has %d grants", n)
	}
}
