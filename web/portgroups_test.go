package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestPortGroupCreatedEditedAndGrantedOnPage(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, _, db := addLeasedNetwork(p)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get(network+"?tab=groups").is(t, http.StatusOK).has(t, "No port groups", "New port group")
	b.get(network+"/port-groups").is(t, http.StatusOK).has(t, "The bridge of this kind of network does not", "disabled")
	slow := url.Values{"name": {"slow"}, "toAverage": {"1000"}, "toPeak": {"2000"}, "restricted": {"yes"}}
	b.post(network+"/port-groups", slow).is(t, http.StatusSeeOther)
	b.post(network+"/port-groups", slow).is(t, http.StatusUnprocessableEntity).has(t, "has a port group named slow already", `value="2000"`)
	b.post(network+"/port-groups", url.Values{"name": {"x"}, "toAverage": {"many"}}).is(t, http.StatusUnprocessableEntity).has(t, "Give a whole number above 0, not &#34;many&#34;.")
	b.get(network+"?tab=groups").is(t, http.StatusOK).has(t, "to guests 1000 KiB/s, peak 2000 KiB/s, restricted", "Share with a project")
	b.get(network+"/port-groups?name=slow").is(t, http.StatusOK).has(t, "Port group slow", `value="1000"`)
	slow.Set("toAverage", "1500")
	slow.Set("old", "slow")
	b.post(network+"/port-groups", slow).is(t, http.StatusSeeOther)
	b.post(network+"/port-groups", url.Values{"name": {"vanished"}, "old": {"vanished"}}).is(t, http.StatusNotFound).has(t, "no port group vanished any more")
	b.get(network+"?tab=groups").is(t, http.StatusOK).lacks(t, "vanished")

	// After a grant, a tenant sees the port group and can connect a NIC to it.
	p.addUser("tom", "")
	p.exec("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	tom := p.browser()
	tom.post("/sign-in", url.Values{"name": {"tom"}, "password": {goodPassword}}).is(t, http.StatusSeeOther)
	edit := "/vms/" + string(db) + "?tab=configure"
	tom.get(network+"?tab=groups").is(t, http.StatusOK).lacks(t, "slow")
	tom.get(edit).is(t, http.StatusOK).lacks(t, "lab/slow")
	b.post(network+"/group-grants", url.Values{"group": {"slow"}, "project": {"all"}}).is(t, http.StatusSeeOther)
	tom.get(network+"?tab=groups").is(t, http.StatusOK).has(t, "slow", "All projects")
	tom.get(edit).is(t, http.StatusOK).has(t, `value="libvirt:lab/slow"`, "network lab · port group slow")
	tom.post("/vms/"+string(db)+"/edit", url.Values{
		"generation": {"1"}, "name": {"db"}, "spec.cpus": {"2"}, "spec.memoryMiB": {"4", "GiB"}, "spec.nics": {""},
		"spec.nics[0].network": {"libvirt:lab/slow"}, "spec.nics[0].mac": {"52:54:00:00:05:02"},
	}).is(t, http.StatusSeeOther)
	tom.get("/vms/"+string(db)).is(t, http.StatusOK).has(t, `<span class="label">slow</span>`)
	b.post(network+"/port-groups/slow/delete", nil).is(t, http.StatusConflict)
	b.post(network+"/group-grants", url.Values{"group": {"slow"}, "project": {"all"}, "revoke": {"yes"}}).is(t, http.StatusSeeOther)
	tom.get(network+"?tab=groups").is(t, http.StatusOK).lacks(t, "slow")
}

func TestAPIManagesPortGroups(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, _, _ := addLeasedNetwork(p)
	api := p.apiClient("ann", fleet.RoleAdmin, nil)
	at := "/api/v1" + network + "/port-groups"
	api.call("PUT", at+"/slow", `{"toGuest":{"averageKiB":1000},"fromGuest":{"averageKiB":500,"burstKiB":64}}`).is(t, http.StatusAccepted).has(t, `"kind":"network.apply"`)
	api.call("PUT", at+"/slow", `{"vlan":{"id":20}}`).is(t, http.StatusUnprocessableEntity).has(t, "The bridge of this kind of network does not", `"vlan"`)
	api.call("GET", at, "").is(t, http.StatusOK).has(t, `"burstKiB":64`, `"grants":[]`)
	// The API sets the security groups and anti-spoofing of a port group, and keeps them on edits, as the page does.
	api.call("PUT", at+"/slow", `{"antiSpoofing":true,"securityGroups":["00000000-0000-7000-8000-000000000000"]}`).is(t, http.StatusUnprocessableEntity).has(t, "no such security group")
	api.call("PUT", at+"/slow", `{"toGuest":{"averageKiB":1000},"fromGuest":{"averageKiB":500,"burstKiB":64},"antiSpoofing":true}`).is(t, http.StatusAccepted)
	api.call("GET", at, "").is(t, http.StatusOK).has(t, `"antiSpoofing":true`)
	api.call("PUT", at+"/slow/grants/all", "").is(t, http.StatusNoContent)
	api.call("GET", at, "").is(t, http.StatusOK).has(t, `"projectId":""`)
	api.call("DELETE", at+"/slow/grants/all", "").is(t, http.StatusNoContent)
	api.call("DELETE", at+"/slow", "").is(t, http.StatusAccepted)
	api.call("DELETE", at+"/slow", "").is(t, http.StatusNotFound)
}
