package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"quantix/internal/fleet"
)

// Tenants may use a discovered bridge, and a restricted port group of a bridged network, only after a grant to their
// project. Until then the API answers as for a missing object.
func TestInaccessibleObjectsAnsweredAsMissing(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	h := p.addHost("host-1", 0)
	p.addNetwork("default", h)
	shop, office := p.addProject("shop"), p.addProject("office")
	br0, lan := fleet.NewID[fleet.NetworkID](), fleet.NewID[fleet.NetworkID]()
	p.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, 'br0', 'bridge')`, br0)
	p.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'uplink', 'libvirt', '{"mode":"device","device":"eth1","portGroups":[{"name":"web"},{"name":"db"},{"name":"staff","restricted":true}]}')`, lan)
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) SELECT 'net', unnest($1::text[]), $2, 'assign', '{"active":true,"bridge":"br0","forward":"bridge"}'`, []fleet.NetworkID{br0, lan}, h)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	mia := p.newAPIClient("mia", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	olga := p.newAPIClient("olga", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{office: fleet.RoleMember})
	theirs := admin.call("POST", "/api/v1/security-groups", fmt.Sprintf(`{"projectId":%q,"name":"theirs","spec":{}}`, office)).requireStatus(t, http.StatusCreated)
	group := regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindStringSubmatch(theirs.body)[1]
	none := string(fleet.NewID[fleet.NetworkID]())

	// withoutIDs returns the response without ids and other parts that differ between requests.
	strip := regexp.MustCompile(`staff|nemo5|[0-9a-f]{8}-[0-9a-f-]{27}|"reference":"[^"]*"`)
	withoutIDs := func(a answer) string { return fmt.Sprint(a.status, strip.ReplaceAllString(a.body, "")) }
	n := 0
	ask := func(who *apiClient, project fleet.ProjectID, nic string) answer {
		n++
		return who.call("POST", "/api/v1/vms", fmt.Sprintf(`{"projectId":%q,"hostId":%q,"name":"vm-%d","spec":{"cpus":1,"memoryMiB":128,"firmware":"bios","nics":[%s]}}`, project, h, n, nic))
	}
	alike := func(what string, there, not answer) {
		t.Helper()
		if withoutIDs(there) != withoutIDs(not) || there.status < 400 {
			t.Errorf("%s: the hidden object is answered with %s, a missing one with %s", what, withoutIDs(there), withoutIDs(not))
		}
	}
	byID := func(id string) string { return fmt.Sprintf(`{"networkId":%q}`, id) }
	on := func(group string) string { return fmt.Sprintf(`{"networkId":%q,"portGroup":%q}`, lan, group) }
	mia.call("GET", "/api/v1/networks", "").requireStatus(t, http.StatusOK).excludes(t, "br0", string(br0))
	alike("a bridge", mia.call("GET", "/api/v1/networks/"+string(br0), ""), mia.call("GET", "/api/v1/networks/"+none, ""))
	alike("a bridge's port groups", mia.call("GET", "/api/v1/networks/"+string(br0)+"/port-groups", ""), mia.call("GET", "/api/v1/networks/"+none+"/port-groups", ""))
	alike("a VM on a bridge", ask(mia, shop, byID(string(br0))), ask(mia, shop, byID(none)))
	alike("a VM on a network that leads out", ask(mia, shop, byID(string(lan))), ask(mia, shop, byID(none)))
	alike("a VM in another project's security group",
		ask(mia, shop, fmt.Sprintf(`{"network":"default","securityGroups":[%q]}`, group)), ask(mia, shop, fmt.Sprintf(`{"network":"default","securityGroups":[%q]}`, none)))
	for _, at := range []string{"/networks/" + string(br0) + "/grants/" + string(shop), "/networks/" + string(lan) + "/port-groups/web/grants/" + string(shop)} {
		mia.call("PUT", "/api/v1"+at, "").requireStatus(t, http.StatusForbidden)
	}
	vm := ask(mia, shop, `{"network":"default"}`).requireStatus(t, http.StatusCreated)
	edit := "/api/v1/vms/" + regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindStringSubmatch(vm.body)[1]
	moved := func(nic string) answer {
		return mia.call("PATCH", edit, fmt.Sprintf(`{"spec":{"nics":[%s]}}`, nic))
	}
	alike("a NIC onto a bridge", moved(byID(string(br0))), moved(byID(none)))

	// Each object is granted to the project separately.
	admin.call("PUT", "/api/v1/networks/"+string(br0)+"/grants/"+string(shop), "").requireStatus(t, http.StatusNoContent)
	admin.call("PUT", "/api/v1/networks/"+string(lan)+"/port-groups/web/grants/"+string(shop), "").requireStatus(t, http.StatusNoContent)
	mia.call("GET", "/api/v1/networks", "").requireStatus(t, http.StatusOK).contains(t, `"br0"`)
	ask(mia, shop, byID(string(br0))).requireStatus(t, http.StatusCreated)
	ask(mia, shop, on("web")).requireStatus(t, http.StatusCreated)
	for _, closed := range []string{"db", "staff"} {
		ask(mia, shop, on(closed)).requireStatus(t, http.StatusUnprocessableEntity)
	}
	alike("a port group by grant that there is", ask(mia, shop, on("staff")), ask(mia, shop, on("nemo5")))
	olga.call("GET", "/api/v1/networks", "").requireStatus(t, http.StatusOK).excludes(t, "br0")
	alike("another project's bridge", olga.call("GET", "/api/v1/networks/"+string(br0), ""), olga.call("GET", "/api/v1/networks/"+none, ""))
	ask(olga, office, on("web")).requireStatus(t, http.StatusUnprocessableEntity)
	admin.call("DELETE", "/api/v1/networks/"+string(br0)+"/grants/"+string(shop), "").requireStatus(t, http.StatusNoContent)
	alike("a bridge after its grant was taken back", ask(mia, shop, byID(string(br0))), ask(mia, shop, byID(none)))
}
