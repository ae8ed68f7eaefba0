package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// addLeasedNetwork creates a network with DHCP on two hosts, and two VMs with NICs on that network: web has a dynamic
// lease, db a reserved address. network is the path of the network's page.
func addLeasedNetwork(p *portal) (network string, web, db fleet.VMID) {
	p.t.Helper()
	h1, h2 := p.addHost("host-1", 0), p.addHost("host-2", 0)
	p.addNetwork("default", h1)
	id := fleet.NewID[fleet.NetworkID]()
	p.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'lab', 'libvirt', '{"mode":"nat","dns":true,"ipv4":{"gateway":"10.5.0.1/24","dhcp":{
		"ranges":[{"start":"10.5.0.100","end":"10.5.0.150"}],"leases":[{"mac":"52:54:00:00:05:02","ip":"10.5.0.9","name":"db"}]}}}')`, id)
	p.publishNetwork(id)
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) SELECT 'net', $1, unnest($2::text[]), 'assign',
		'{"active":true,"leases":[{"mac":"52:54:00:00:05:01","ip":"10.5.0.101","name":"web"},{"mac":"52:54:00:00:ee:ee","ip":"10.5.0.9","name":"stray"}]}'`, id, []fleet.HostID{h1, h2})
	p.execSQL(`UPDATE assignments SET status = '{"active":true}' WHERE object_id = $1 AND host_id = $2`, id, h2)
	on := func(mac, ip string) func(*fleet.VM) {
		return func(vm *fleet.VM) {
			vm.Spec.NICs = []fleet.NIC{{NetworkID: id, MAC: mac}}
			vm.Status.NICs = []fleet.NICState{{MAC: mac, Source: "network lab", Addresses: []string{ip}, Seen: []fleet.SeenAddress{{IP: ip, By: []fleet.AddressSource{fleet.FromAgent, fleet.FromLease}}}}}
		}
	}
	project := p.addProject("shop")
	web = p.addVM(project, h1, "web", fleet.Running, on("52:54:00:00:05:01", "10.5.0.101"))
	db = p.addVM(project, h1, "db", fleet.Running, on("52:54:00:00:05:02", "10.5.0.9"))
	return "/networks/" + string(id), web, db
}

func TestAddressReservedAndFreedOnNetworkPage(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, web, _ := addLeasedNetwork(p)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	page := b.get(network+"?tab=addresses").requireStatus(t, http.StatusOK)
	page.contains(t,
		"10.5.0.100 – 10.5.0.150", "1 of 51, on host-1", "next free: <span class=\"mono\">10.5.0.2</span>", "52:54:00:00:05:02", "outside all ranges",
		"guest agent, DHCP lease", "2 conflicts.", "stray", "which is reserved for 52:54:00:00:05:02", "On host-1 both")
	if strings.Contains(page.body, "host-2") {
		t.Error("a host without addresses in use is listed")
	}
	if n := strings.Count(b.get(network+"?tab=addresses&find=10.5.0.101").requireStatus(t, http.StatusOK).body, `id="used-`); n != 1 {
		t.Errorf("the search lists %d addresses, want 1", n)
	}
	b.get(network+"?tab=addresses&find=nothing-like-it").requireStatus(t, http.StatusOK).contains(t, "Nothing found")

	// The VM's page offers to reserve the NIC's current address, and the dialog shows that address.
	at := network + "/reservations?mac=52:54:00:00:05:01&ip=10.5.0.101&card=web"
	b.get("/vms/"+string(web)).requireStatus(t, http.StatusOK).contains(t, "10.5.0.101", "guest agent, DHCP lease", "Reserve an address", "card=web")
	b.get(at).requireStatus(t, http.StatusOK).contains(t, "Reserve an address for web", `value="10.5.0.101"`, "10.5.0.2, the next free address")
	b.post(network+"/reservations", url.Values{"mac": {"52:54:00:00:05:01"}, "ip": {"10.5.0.9"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "10.5.0.9 is already leased to another NIC")
	b.post(network+"/reservations", url.Values{"mac": {"52:54:00:00:05:01"}, "ip": {"10.5.0.101"}, "name": {"web"}}).requireStatus(t, http.StatusSeeOther)
	b.get(network+"?tab=addresses").requireStatus(t, http.StatusOK).contains(t, "inside a range", "Free 10.5.0.101")
	b.get("/vms/"+string(web)).requireStatus(t, http.StatusOK).contains(t, "Reserve another address", "Free 10.5.0.101")
	b.post(network+"/reservations/52:54:00:00:05:01/free", nil).requireStatus(t, http.StatusSeeOther)
	b.get(network+"?tab=addresses").requireStatus(t, http.StatusOK).excludes(t, "Free 10.5.0.101")

	viewer := p.newSignedInBrowser("vera", "")
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'vera', 'viewer' FROM projects")
	viewer.get(network+"?tab=addresses").requireStatus(t, http.StatusNotFound)
	seen := viewer.get("/vms/"+string(web)).requireStatus(t, http.StatusOK)
	seen.contains(t, "10.5.0.101")
	seen.excludes(t, "host-1", "Reserve an address")
}

func TestAPIReservesAndFreesAddresses(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, web, _ := addLeasedNetwork(p)
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	at := "/api/v1" + network
	api.call("GET", at+"/addresses", "").requireStatus(t, http.StatusOK).contains(t, `"next":"10.5.0.2"`, `"kind":"reserved"`, `"by":["agent","lease"]`)
	api.call("PUT", at+"/reservations/52-54-00-00-05-01", `{"name":"web"}`).requireStatus(t, http.StatusAccepted).contains(t, `"ip":"10.5.0.101"`, `"kind":"network.apply"`)
	api.call("GET", "/api/v1/vms/"+string(web)+"/addresses", "").requireStatus(t, http.StatusOK).contains(t, `"reserved":"10.5.0.101"`, `"reserves":true`)
	api.call("PUT", at+"/reservations/52:54:00:00:05:07", `{"ip":"10.6.0.1"}`).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "outside the subnet", `"ip"`)
	api.call("DELETE", at+"/reservations/52:54:00:00:05:01", "").requireStatus(t, http.StatusAccepted)
	api.call("DELETE", at+"/reservations/52:54:00:00:05:01", "").requireStatus(t, http.StatusNotFound)
}
