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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get(network+"?tab=groups").requireStatus(t, http.StatusOK).contains(t, "No port groups", "New port group")
	b.get(network+"/port-groups").requireStatus(t, http.StatusOK).contains(t, "The bridge of this kind of network does not", "disabled")
	slow := url.Values{"name": {"slow"}, "toAverage": {"1000"}, "toPeak": {"2000"}, "restricted": {"yes"}}
	b.post(network+"/port-groups", slow).requireStatus(t, http.StatusSeeOther)
	b.post(network+"/port-groups", slow).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "has a port group named slow already", `value="2000"`)
	b.post(network+"/port-groups", url.Values{"name": {"x"}, "toAverage": {"many"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Enter a whole number above 0, not &#34;many&#34;.")
	b.get(network+"?tab=groups").requireStatus(t, http.StatusOK).contains(t, "to guests 1000 KiB/s, peak 2000 KiB/s, restricted", "Share with a project")
	b.get(network+"/port-groups?name=slow").requireStatus(t, http.StatusOK).contains(t, "Port group slow", `value="1000"`)
	slow.Set("toAverage", "1500")
	slow.Set("old", "slow")
	b.post(network+"/port-groups", slow).requireStatus(t, http.StatusSeeOther)
	b.post(network+"/port-groups", url.Values{"name": {"vanished"}, "old": {"vanished"}}).requireStatus(t, http.StatusNotFound).contains(t, "no port group vanished any more")
	b.get(network+"?tab=groups").requireStatus(t, http.StatusOK).excludes(t, "vanished")

	// After a grant, a tenant sees the port group and can connect a NIC to it.
	p.addUser("tom", "")
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	tom := p.newBrowser()
	tom.post("/sign-in", url.Values{"name": {"tom"}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
	edit := "/vms/" + string(db) + "?tab=configure"
	tom.get(network+"?tab=groups").requireStatus(t, http.StatusOK).excludes(t, "slow")
	tom.get(edit).requireStatus(t, http.StatusOK).excludes(t, "lab/slow")
	b.post(network+"/group-grants", url.Values{"group": {"slow"}, "project": {"all"}}).requireStatus(t, http.StatusSeeOther)
	tom.get(network+"?tab=groups").requireStatus(t, http.StatusOK).contains(t, "slow", "All projects")
	tom.get(edit).requireStatus(t, http.StatusOK).contains(t, `value="libvirt:lab/slow"`, "network lab · port group slow")
	tom.post("/vms/"+string(db)+"/edit", url.Values{
		"generation": {"1"}, "name": {"db"}, "spec.cpus": {"2"}, "spec.memoryMiB": {"4", "GiB"}, "spec.nics": {""},
		"spec.nics[0].network": {"libvirt:lab/slow"}, "spec.nics[0].mac": {"52:54:00:00:05:02"},
	}).requireStatus(t, http.StatusSeeOther)
	tom.get("/vms/"+string(db)).requireStatus(t, http.StatusOK).contains(t, `<span class="label">slow</span>`)
	b.post(network+"/port-groups/slow/delete", nil).requireStatus(t, http.StatusConflict)
	b.post(network+"/group-grants", url.Values{"group": {"slow"}, "project": {"all"}, "revoke": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	tom.get(network+"?tab=groups").requireStatus(t, http.StatusOK).excludes(t, "slow")
}

func TestAPIManagesPortGroups(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, _, _ := addLeasedNetwork(p)
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	at := "/api/v1" + network + "/port-groups"
	api.call("PUT", at+"/slow", `{"toGuest":{"averageKiB":1000},"fromGuest":{"averageKiB":500,"burstKiB":64}}`).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"network.apply"`)
	api.call("PUT", at+"/slow", `{"vlan":{"id":20}}`).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "The bridge of this kind of network does not", `"vlan"`)
	api.call("GET", at, "").requireStatus(t, http.StatusOK).contains(t, `"burstKiB":64`, `"grants":[]`)
	// The API sets the security groups and anti-spoofing of a port group, and keeps them on edits, as the page does.
	api.call("PUT", at+"/slow", `{"antiSpoofing":true,"securityGroups":["00000000-0000-7000-8000-000000000000"]}`).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "no such security group")
	api.call("PUT", at+"/slow", `{"toGuest":{"averageKiB":1000},"fromGuest":{"averageKiB":500,"burstKiB":64},"antiSpoofing":true}`).requireStatus(t, http.StatusAccepted)
	api.call("GET", at, "").requireStatus(t, http.StatusOK).contains(t, `"antiSpoofing":true`)
	api.call("PUT", at+"/slow/grants/all", "").requireStatus(t, http.StatusNoContent)
	api.call("GET", at, "").requireStatus(t, http.StatusOK).contains(t, `"projectId":""`)
	api.call("DELETE", at+"/slow/grants/all", "").requireStatus(t, http.StatusNoContent)
	api.call("DELETE", at+"/slow", "").requireStatus(t, http.StatusAccepted)
	api.call("DELETE", at+"/slow", "").requireStatus(t, http.StatusNotFound)
}
