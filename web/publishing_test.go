package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// A tenant's pages, lists, forms and API answers do not have a pool that is published to no project of the tenant. Its
// pages answer like those of a pool that does not exist.
func TestPoolHiddenUntilPublished(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	h := p.addHost("host-1", 0)
	p.addNetwork("default", h)
	p.addPool("open-pool", h)
	pool := p.addPool("hidden-pool", h)
	p.execSQL("DELETE FROM pool_grants WHERE pool_id = $1", pool)
	shop := p.addProject("shop")
	chief, mia := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newTenantBrowser("mia", shop)
	page, none := "/pools/"+string(pool), "/pools/"+string(fleet.NewID[fleet.PoolID]())
	// A published image stays usable wherever its copies are, without the name of their pool.
	mia.get("/choices/isos").requireStatus(t, http.StatusOK).excludes(t, "hidden-pool")
	p.execSQL("DELETE FROM image_grants USING images i WHERE i.id = image_id AND i.name LIKE '%of hidden-pool'")
	lists := []string{
		"/", "/pools", "/pools.csv", "/tree/storage", "/tree/storage?node=storage:shared", "/vms/new", "/choices/pools", "/choices/isos", "/choices/images", "/search?q=hidden-pool",
		"/complete?noun=vms&q=pool:hid", "/images",
	}
	wantHidden := func(hidden bool) {
		t.Helper()
		for _, at := range lists {
			if body := mia.get(at).requireStatus(t, http.StatusOK).body; strings.Contains(strings.ReplaceAll(body, "q=hidden-pool", ""), string(pool)) && hidden {
				t.Errorf("%s has the ID of the hidden pool: %s", at, body)
			}
		}
		for _, at := range []string{"/pools", "/pools.csv", "/vms/new", "/choices/pools", "/complete?noun=vms&q=pool:hid"} {
			if body := mia.get(at).requireStatus(t, http.StatusOK).body; strings.Contains(body, "hidden-pool") == hidden {
				t.Errorf("%s: hidden is %t: %s", at, hidden, body)
			}
		}
	}
	wantHidden(true)
	for _, tab := range []string{"", "?tab=volumes", "?tab=vms", "?tab=grants", "?tab=configure"} {
		a := mia.get(page+tab).requireStatus(t, http.StatusNotFound)
		a.excludes(t, "hidden-pool")
		if missing := mia.get(none + tab); missing.status != a.status {
			t.Errorf("%s: %d for the hidden pool, %d for a missing one", tab, a.status, missing.status)
		}
	}
	api := p.newAPIClient("mo", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	api.call("GET", "/api/v1/pools", "").requireStatus(t, http.StatusOK).excludes(t, "hidden-pool", string(pool))
	for _, at := range []string{"", "/volumes", "/vms"} {
		api.call("GET", "/api/v1"+page+at, "").requireStatus(t, http.StatusNotFound).excludes(t, "hidden-pool")
	}
	create := func(who *apiClient, name string, pool fleet.PoolID) answer {
		return who.call("POST", "/api/v1/vms", fmt.Sprintf(`{"projectId":%q,"name":%q,"spec":{"cpus":1,"memoryMiB":128,"firmware":"bios","disks":[{"poolId":%q,"sizeBytes":1048576}]}}`, shop, name, pool))
	}
	const refusal = "There is no such pool, or none that is published to the project."
	for _, id := range []fleet.PoolID{pool, fleet.NewID[fleet.PoolID]()} {
		create(api, "refused", id).requireStatus(t, http.StatusUnprocessableEntity).contains(t, refusal, "spec.disks[0].poolId")
	}
	create(admin, "by-hand", pool).requireStatus(t, http.StatusCreated)
	form := newVMForm(shop, pool)
	form.Set("name", "refused")
	mia.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity).excludes(t, "hidden-pool")

	// The tab Published to.
	grants := page + "/grants"
	mia.post(grants, url.Values{"project": {string(shop)}}).requireStatus(t, http.StatusForbidden)
	chief.get(page+"?tab=grants").requireStatus(t, http.StatusOK).contains(t, "No project can use this pool yet.", "shop", "All projects")
	chief.post(grants, url.Values{"project": {string(shop)}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusOK).contains(t, `id="grant-`+string(shop), "mara")
	wantHidden(false)
	mia.get(page).requireStatus(t, http.StatusOK).excludes(t, "Published to", "Assign to hosts", "mara", "host-1", "10.0.0.5", "/srv/")
	for _, tab := range []string{"grants", "volumes", "configure", "monitor", "tasks"} {
		mia.get(page+"?tab="+tab).requireStatus(t, http.StatusNotFound)
	}
	chief.post(grants, url.Values{"project": {""}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose a project")
	create(api, "allowed", pool).requireStatus(t, http.StatusCreated)
	chief.post(grants, url.Values{"project": {string(shop)}, "revoke": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	mia.get(page).requireStatus(t, http.StatusNotFound)
	chief.post(grants, url.Values{}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusUnprocessableEntity)

	// The API.
	for _, method := range []string{http.MethodPut, http.MethodPut, http.MethodDelete, http.MethodDelete, http.MethodPut} {
		api.call(method, "/api/v1"+grants+"/all", "").requireStatus(t, http.StatusForbidden)
		admin.call(method, "/api/v1"+grants+"/"+string(shop), "").requireStatus(t, http.StatusNoContent)
		admin.call(method, "/api/v1"+grants+"/all", "").requireStatus(t, http.StatusNoContent)
	}
	admin.call("PUT", "/api/v1"+grants+"/"+string(fleet.NewID[fleet.ProjectID]()), "").requireStatus(t, http.StatusNotFound)
	admin.call("GET", "/api/v1"+page, "").requireStatus(t, http.StatusOK).contains(t, `"grants":[{`, `"projectName":"shop"`, `"by":"ann"`)
	api.call("GET", "/api/v1"+page, "").requireStatus(t, http.StatusOK).excludes(t, `"by":"ann"`)
}
