package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestDiscoveredNetworkShownAsUnmanaged(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/networks").is(t, http.StatusOK).has(t, "No networks yet")
	h := p.addHost("host-1", 0)
	p.addNetwork("default", h, p.addHost("host-2", 5*time.Minute))
	p.addVM(p.addProject("shop"), h, "web-01", fleet.Running)
	a := b.get("/networks").is(t, http.StatusOK)
	a.has(t, "default", "Active on 1 of 2 hosts", "NAT", "192.168.122.0/24")
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM networks").Scan(&id); err != nil {
		t.Fatal(err)
	}
	b.get("/networks/"+id).is(t, http.StatusOK).has(t, "host-1", "virbr0", "Unknown", "Last known: active.")
	b.get("/networks/"+id+"?tab=vms").is(t, http.StatusOK).has(t, "web-01")
	b.get("/menus/network/"+id, "HX-Request", "true").is(t, http.StatusOK).has(t, "The network was discovered on hosts and is not managed here.")
	b.get("/networks?filter=nosuch:x").is(t, http.StatusUnprocessableEntity)
	b.get("/networks/"+string(fleet.NewID[fleet.NetworkID]())).is(t, http.StatusNotFound)
}

func TestBridgeGrantedToProject(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	chief, mia := p.signedIn("mara", fleet.RoleAdmin), p.signedIn("mia", fleet.RoleNone)
	shop, h := p.addProject("shop"), p.addHost("host-1", 0)
	p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'mia', 'member')", shop)
	p.addNetwork("default", h)
	p.addNetwork("br0", h)
	p.exec("UPDATE networks SET kind = 'bridge' WHERE name = 'br0'")
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM networks WHERE name = 'br0'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	grants := "/networks/" + id + "/grants"
	chief.get("/vms/new").is(t, http.StatusOK).has(t, "bridge br0")
	form := mia.get("/vms/new").is(t, http.StatusOK)
	form.has(t, "network default")
	form.lacks(t, "br0")
	mia.get("/networks").is(t, http.StatusOK).lacks(t, "br0")
	mia.post(grants, url.Values{"project": {string(shop)}}).is(t, http.StatusForbidden)
	chief.get("/networks/"+id+"?tab=grants").is(t, http.StatusOK).has(t, "Shared with no project", "shop", "All projects")
	chief.post(grants, url.Values{"project": {string(shop)}}, hx("grants")...).is(t, http.StatusOK).has(t, `id="grants"`, `id="grant-`+string(shop))
	mia.get("/vms/new").is(t, http.StatusOK).has(t, "bridge br0 · 1 host · only in shop")
	shown := mia.get("/networks/"+id+"?tab=grants").is(t, http.StatusOK)
	shown.has(t, "shop")
	shown.lacks(t, `<form class="pad`)
	chief.post(grants, url.Values{"project": {string(shop)}, "revoke": {"yes"}}).is(t, http.StatusSeeOther)
	mia.get("/networks/"+id).is(t, http.StatusNotFound)
	chief.post(grants, url.Values{"project": {"all"}}, hx("grants")...).is(t, http.StatusOK).has(t, `id="grant-all"`, "Shared with all projects.")
	chief.post(grants, url.Values{}, hx("grants")...).is(t, http.StatusNotFound)
	for who, want := range map[fleet.UserID]int{"mara": http.StatusNoContent, "mia": http.StatusForbidden} {
		token, err := p.control.CreateToken(t.Context(), fleet.Actor{UserID: who}, "ci", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPut} {
			p.browser().do(method, "/api/v1"+grants+"/"+string(shop), nil, "Authorization", "Bearer "+token.Secret).is(t, want)
			p.browser().do(method, "/api/v1"+grants+"/all", nil, "Authorization", "Bearer "+token.Secret).is(t, want)
		}
	}
	mia.get("/networks/"+id).is(t, http.StatusOK)
}

// newNetworkPortal returns a portal with a network on three hosts: healthy on host-1, without dnsmasq on host-2, and
// stopped on host-3. host-1 and host-2 have a VM on the network. path is the path of the network's page.
func newNetworkPortal(t *testing.T) (p *portal, path string, hosts []fleet.HostID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	hosts = []fleet.HostID{p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", 0)}
	lan := fleet.NewID[fleet.NetworkID]()
	p.exec(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'lan', 'libvirt', $2)`, lan, mustJSON(fleet.NetworkSpec{
		Mode: fleet.NetworkNAT, DNS: true, Domain: "lab.example.org", IPv4: &fleet.Subnet{
			Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "10.5.0.100", End: "10.5.0.150"}}, Leases: []fleet.StaticLease{{MAC: "52:54:00:12:34:56", IP: "10.5.0.9", Name: "db"}}},
		},
	}))
	for i, status := range []fleet.NetworkStatus{{Active: true}, {Active: true, Error: "dnsmasq is not running for it."}, {StoppedOutside: true}} {
		p.exec(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation) VALUES ('net', $1, $2, 'assign', $3, 1)`, lan, hosts[i], mustJSON(status))
	}
	project := p.addProject("shop")
	for i, name := range []string{"web-1", "web-2"} {
		p.addVM(project, hosts[i], name, fleet.Running, func(vm *fleet.VM) { vm.Spec.NICs = []fleet.NIC{{NetworkID: lan, MAC: "52:54:00:00:00:0" + name[4:]}} })
	}
	return p, "/networks/" + string(lan), hosts
}

// The network's page shows, for each host, the fault, the number of affected VMs and the remedy.
func TestNetworkPageShowsFaultAndRemedyPerHost(t *testing.T) {
	p, path, _ := newNetworkPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/networks").is(t, http.StatusOK).has(t, "lan", "NAT", "10.5.0.0/24", "Managed", "Failed on 1 of 3 hosts", "New network")
	a := b.get(path).is(t, http.StatusOK)
	a.has(t, "dnsmasq is not running for it.", "Stopped on the host outside Quantix.", "The network is active there.", "Assign to hosts", "Release from host-1",
		"Retry host-2", `<a href="/vms?filter=network%3A%22lan%22+host%3A%22host-2%22">1 VM with NICs on this network</a>`)
	a.lacks(t, "host-1%22\">1 VM with NICs on this network")
	{
		a := b.get("/vms?filter=network%3A%22lan%22+host%3A%22host-2%22").is(t, http.StatusOK)
		a.has(t, "web-2")
		a.lacks(t, "web-1")
	}
	b.get(path+"?tab=summary").is(t, http.StatusOK).has(t, "10.5.0.100 – 10.5.0.150", "52:54:00:12:34:56", "db", "on, domain lab.example.org", "chosen by libvirt on each host", "Most settings of a network are fixed.")
	b.get("/networks.csv").is(t, http.StatusOK).has(t, "lan,libvirt,3,2,host-1 host-2 host-3", "NAT,10.5.0.0/24")
}

func TestTenantSeesGrantedNetwork(t *testing.T) {
	p, path, _ := newNetworkPortal(t)
	b := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	a := b.get(path+"?tab=summary").is(t, http.StatusOK)
	a.has(t, "10.5.0.0/24", "You do not have permission to change hosts and pools.")
	a.lacks(t, "52:54:00:12:34:56", "Retry")
	b.get(path).is(t, http.StatusOK).lacks(t, "host-2")
	b.get("/networks/new").is(t, http.StatusForbidden)
	b.post("/networks", url.Values{"name": {"x"}, "mode": {"isolated"}}).is(t, http.StatusForbidden)
	for _, act := range []string{"/assign", "/delete"} {
		b.post(path+act, url.Values{}).is(t, http.StatusForbidden)
	}
}

func TestNetworkFormShowsErrorsAndCreatesNetwork(t *testing.T) {
	p, _, hosts := newNetworkPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/networks/new").is(t, http.StatusOK).has(t, "host-1", "Isolated", "Static leases", `value="nat" checked`)
	// Each error is shown at its field, and the form keeps the input.
	a := b.post("/networks", url.Values{
		"name": {"Lan!"}, "mode": {"nat"}, "gateway4": {"10.6.0.1/24"}, "dhcp4": {"yes"}, "ranges4": {"10.6.0.10 - 10.6.0.20\n10.7.0.1-10.7.0.9"},
		"leases4": {"52:54:00:12:34:56 10.6.0.9 web\n52:54:00:12:34:56, 10.6.0.8"}, "gateway6": {"10.9.0.1/24"}, "bridge": {"docker0"}, "mtu": {"many"}, "host": {string(hosts[0])},
	}, hx("network-form")...).is(t, 422)
	a.has(t, "A name has 1–63 lower-case letters", "10.7.0.1 is outside the subnet 10.6.0.0/24.", "52:54:00:12:34:56 already has a lease.", "10.9.0.1 is not an IPv6 address.",
		"docker0 is a device name of the system", "Give the MTU as a number of bytes", `value="Lan!"`, "10.6.0.10 - 10.6.0.20", `value="many"`)
	b.post("/networks", url.Values{"name": {"b"}, "mode": {"nat"}, "gateway4": {"10.5.0.129/25"}, "host": {string(hosts[0])}}, hx("network-form")...).is(t, 422).
		has(t, "10.5.0.128/25 of network b overlaps 10.5.0.0/24 of network lan on host-1.")
	p.addNetwork("theirs", hosts[1])
	b.post("/networks", url.Values{"name": {"theirs"}, "mode": {"isolated"}}, hx("network-form")...).is(t, 422).has(t, "A network named theirs was found on hosts: host-2.")
	// Without scripts the form also sends the fields of unselected options.
	form := url.Values{
		"name": {"quiet"}, "mode": {"isolated"}, "device": {"eth1"}, "gateway4": {" 10.8.0.1/24 "}, "ranges4": {"10.8.0.10-10.8.0.20"}, "dns": {"yes"}, "mtu": {"1400"}, "host": {string(hosts[0]), string(hosts[1])},
	}
	made := b.post("/networks", form).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(made).is(t, http.StatusOK).has(t, "quiet", "Pending", "The host has not reported yet.", "Active on 0 of 2 hosts")
	{
		a := b.get(made + "?tab=summary")
		a.has(t, "Isolated", "10.8.0.0/24", "1400 bytes", "off")
		a.lacks(t, "eth1")
	}
	b.get("/tasks").has(t, "Assign network")
}

func TestAssignReleaseAndDeleteNetwork(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.fragment(path+"/assign", "dialog").is(t, http.StatusOK).has(t, "This network is already assigned to every host.", `href="`+path+`">Done</a>`)
	more := p.addHost("host-4", 0)
	{
		a := b.get(path+"/assign").is(t, http.StatusOK)
		a.has(t, "host-4")
		a.lacks(t, "host-1")
	}
	b.post(path+"/assign", url.Values{}, hx("dialog")...).is(t, 422).has(t, "Choose at least one host.")
	b.post(path+"/assign", url.Values{"host": {string(more)}}, hx("dialog")...).is(t, http.StatusNoContent)
	b.get(path).has(t, "host-4")
	at := func(host fleet.HostID, act string) string { return path + "/hosts/" + string(host) + "/" + act }
	b.post(at(hosts[1], "retry"), url.Values{}, hx("")...).is(t, http.StatusNoContent)
	b.post(at(hosts[0], "retry"), url.Values{}).is(t, http.StatusConflict).has(t, "The network is active there.")
	b.get(at(hosts[0], "release")).is(t, http.StatusOK).has(t, "Release lan from host-1?")
	b.post(at(hosts[0], "release"), url.Values{}, hx("dialog")...).is(t, 422).has(t, "web-1")
	b.post(at(more, "release"), url.Values{}, hx("dialog")...).is(t, http.StatusNoContent)
	b.get(path).has(t, "Being released")
	b.get(at(fleet.NewID[fleet.HostID](), "release")).is(t, http.StatusNotFound)
	b.get(path+"/delete").is(t, http.StatusOK).has(t, "Delete lan?", "It is stopped and undefined in libvirt on host-1, host-2, host-3, host-4.")
	b.post(path+"/delete", url.Values{}).is(t, http.StatusConflict).has(t, "web-1")
	p.exec("DELETE FROM vms")
	b.post(path+"/delete", url.Values{}).is(t, http.StatusSeeOther)
	b.get(path).has(t, "being deleted", "The network is being deleted. The deletion ends when the last host has released the network.")

	p.addNetwork("theirs", hosts[0])
	found := "/networks/" + string(p.network("theirs"))
	b.get(found+"/delete").is(t, http.StatusOK).has(t, "The network was discovered on hosts and is not managed here.")
	b.post(found+"/delete", url.Values{}).is(t, http.StatusConflict).has(t, "is not managed here.")
}

// API clients can manage networks as on the pages, and get the same reasons for refusals.
func TestAPIManagesNetworks(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	admin := p.apiClient("ann", fleet.RoleAdmin, nil)
	made := admin.call("POST", "/api/v1/networks", `{"name":"six","spec":{"mode":"route","dns":false,"ipv6":{"gateway":"fd00:5::1/64"}},"hostIds":["`+string(hosts[0])+`"]}`).is(t, http.StatusCreated)
	made.has(t, `"name":"six"`, `"state":"pending"`, `"assigned":true`)
	at := made.header.Get("Location")
	admin.call("POST", at+"/hosts/"+string(hosts[0])+"/retry", ``).is(t, http.StatusConflict).has(t, "The host has not finished yet.")
	admin.call("PUT", at+"/hosts/"+string(hosts[1]), ``).is(t, http.StatusAccepted).has(t, "network.apply")
	admin.call("DELETE", at+"/hosts/"+string(hosts[1]), ``).is(t, http.StatusAccepted).has(t, "network.release")
	admin.call("DELETE", at, ``).is(t, http.StatusAccepted)
	admin.call("DELETE", "/api/v1"+path, ``).is(t, http.StatusConflict).has(t, "web-1, web-2")
	admin.call("POST", "/api/v1/networks", `{"name":"x","spec":{"mode":"nat","dns":true,"ipv4":{"gateway":"127.0.0.1/8"}},"hostIds":[]}`).is(t, http.StatusUnprocessableEntity).has(t, "loopback")
	admin.call("GET", "/api/v1"+path, ``).is(t, http.StatusOK).has(t, `"vms":1`, `"byOthers":true`, `"action":"assign","allowed":true`, `"leases":[{"mac":"52:54:00:12:34:56"`)
}
