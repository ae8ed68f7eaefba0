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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/networks").requireStatus(t, http.StatusOK).contains(t, "No networks yet")
	h := p.addHost("host-1", 0)
	p.addNetwork("default", h, p.addHost("host-2", 5*time.Minute))
	p.addVM(p.addProject("shop"), h, "web-01", fleet.Running)
	a := b.get("/networks").requireStatus(t, http.StatusOK)
	a.contains(t, "default", "Active on 1 of 2 hosts", "NAT", "192.168.122.0/24")
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM networks").Scan(&id); err != nil {
		t.Fatal(err)
	}
	b.get("/networks/"+id).requireStatus(t, http.StatusOK).contains(t, "host-1", "virbr0", "Unknown", "Last known: active.")
	b.get("/networks/"+id+"?tab=vms").requireStatus(t, http.StatusOK).contains(t, "web-01")
	b.get("/menus/network/"+id, "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, "The network was discovered on hosts and is not managed here.")
	b.get("/networks?filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity)
	b.get("/networks/"+string(fleet.NewID[fleet.NetworkID]())).requireStatus(t, http.StatusNotFound)
}

func TestBridgeGrantedToProject(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	chief, mia := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newSignedInBrowser("mia", fleet.RoleNone)
	shop, h := p.addProject("shop"), p.addHost("host-1", 0)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'mia', 'member')", shop)
	p.addNetwork("default", h)
	p.addNetwork("br0", h)
	p.execSQL("UPDATE networks SET kind = 'bridge' WHERE name = 'br0'")
	p.execSQL("DELETE FROM network_grants USING networks n WHERE n.id = network_id AND n.name = 'br0'")
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM networks WHERE name = 'br0'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	grants := "/networks/" + id + "/grants"
	chief.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "bridge br0")
	form := mia.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, "network default")
	form.excludes(t, "br0")
	mia.get("/networks").requireStatus(t, http.StatusOK).excludes(t, "br0")
	mia.post(grants, url.Values{"project": {string(shop)}}).requireStatus(t, http.StatusForbidden)
	chief.get("/networks/"+id+"?tab=grants").requireStatus(t, http.StatusOK).contains(t, "No project can use this network yet.", "shop", "All projects")
	chief.post(grants, url.Values{"project": {string(shop)}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusOK).contains(t, `id="grants"`, `id="grant-`+string(shop))
	mia.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "bridge br0")
	mia.get("/networks/"+id+"?tab=grants").requireStatus(t, http.StatusNotFound)
	chief.post(grants, url.Values{"project": {string(shop)}, "revoke": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	mia.get("/networks/"+id).requireStatus(t, http.StatusNotFound)
	chief.post(grants, url.Values{"project": {"all"}}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusOK).contains(t, `id="grant-all"`, "The network is published to all projects.")
	chief.post(grants, url.Values{}, htmxFormHeaders("grants")...).requireStatus(t, http.StatusUnprocessableEntity)
	for who, want := range map[fleet.UserID]int{"mara": http.StatusNoContent, "mia": http.StatusForbidden} {
		token, err := p.control.CreateToken(t.Context(), fleet.Actor{UserID: who}, "ci", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPut} {
			p.newBrowser().send(method, "/api/v1"+grants+"/"+string(shop), nil, "Authorization", "Bearer "+token.Secret).requireStatus(t, want)
			p.newBrowser().send(method, "/api/v1"+grants+"/all", nil, "Authorization", "Bearer "+token.Secret).requireStatus(t, want)
		}
	}
	mia.get("/networks/"+id).requireStatus(t, http.StatusOK)
}

// newNetworkPortal returns a portal with a network on three hosts: healthy on host-1, without dnsmasq on host-2, and
// stopped on host-3. host-1 and host-2 have a VM on the network. path is the path of the network's page.
func newNetworkPortal(t *testing.T) (p *portal, path string, hosts []fleet.HostID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	hosts = []fleet.HostID{p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", 0)}
	lan := fleet.NewID[fleet.NetworkID]()
	p.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'lan', 'libvirt', $2)`, lan, mustJSON(fleet.NetworkSpec{
		Mode: fleet.NetworkNAT, DNS: true, Domain: "lab.example.org", IPv4: &fleet.Subnet{
			Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "10.5.0.100", End: "10.5.0.150"}}, Leases: []fleet.StaticLease{{MAC: "52:54:00:12:34:56", IP: "10.5.0.9", Name: "db"}}},
		},
	}))
	p.publishNetwork(lan)
	for i, status := range []fleet.NetworkStatus{{Active: true}, {Active: true, Error: "dnsmasq is not running for it."}, {StoppedOutside: true}} {
		p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation) VALUES ('net', $1, $2, 'assign', $3, 1)`, lan, hosts[i], mustJSON(status))
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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/networks").requireStatus(t, http.StatusOK).contains(t, "lan", "NAT", "10.5.0.0/24", "Managed", "Failed on 1 of 3 hosts", "New network")
	a := b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, "dnsmasq is not running for it.", "Stopped on the host outside Quantix.", "The network is active there.", "Assign to hosts", "Release from host-1",
		"Retry host-2", `<a href="/vms?filter=network%3A%22lan%22+host%3A%22host-2%22">1 VM with NICs on this network</a>`)
	a.excludes(t, "host-1%22\">1 VM with NICs on this network")
	{
		a := b.get("/vms?filter=network%3A%22lan%22+host%3A%22host-2%22").requireStatus(t, http.StatusOK)
		a.contains(t, "web-2")
		a.excludes(t, "web-1")
	}
	b.get(path+"?tab=summary").requireStatus(t, http.StatusOK).contains(t, "10.5.0.100 – 10.5.0.150", "52:54:00:12:34:56", "db", "on, domain lab.example.org", "chosen by libvirt on each host", "Most settings of a network are fixed.")
	b.get("/networks.csv").requireStatus(t, http.StatusOK).contains(t, "lan,libvirt,3,2,host-1 host-2 host-3", "NAT,10.5.0.0/24")
}

func TestTenantSeesGrantedNetwork(t *testing.T) {
	p, path, _ := newNetworkPortal(t)
	b := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	a := b.get(path+"?tab=summary").requireStatus(t, http.StatusOK)
	a.contains(t, "10.5.0.0/24")
	a.excludes(t, "permission", "Assign to hosts", "Published to", "52:54:00:12:34:56", "Retry")
	b.get(path).requireStatus(t, http.StatusOK).excludes(t, "host-2")
	b.get("/networks/new").requireStatus(t, http.StatusForbidden)
	b.post("/networks", url.Values{"name": {"x"}, "mode": {"isolated"}}).requireStatus(t, http.StatusForbidden)
	for _, act := range []string{"/assign", "/delete"} {
		b.post(path+act, url.Values{}).requireStatus(t, http.StatusForbidden)
	}
}

func TestNetworkFormShowsErrorsAndCreatesNetwork(t *testing.T) {
	p, _, hosts := newNetworkPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/networks/new").requireStatus(t, http.StatusOK).contains(t, "host-1", "Isolated", "Static leases", `value="nat" checked`)
	// Each error is shown at its field, and the form keeps the typed values.
	a := b.post("/networks", url.Values{
		"name": {"Lan!"}, "mode": {"nat"}, "gateway4": {"10.6.0.1/24"}, "dhcp4": {"yes"}, "ranges4": {"10.6.0.10 - 10.6.0.20\n10.7.0.1-10.7.0.9"},
		"leases4": {"52:54:00:12:34:56 10.6.0.9 web\n52:54:00:12:34:56, 10.6.0.8"}, "gateway6": {"10.9.0.1/24"}, "bridge": {"docker0"}, "mtu": {"many"}, "host": {string(hosts[0])},
	}, htmxFormHeaders("network-form")...).requireStatus(t, 422)
	a.contains(t, "A name has 1–63 lower-case letters", "10.7.0.1 is outside the subnet 10.6.0.0/24.", "52:54:00:12:34:56 already has a lease.", "10.9.0.1 is not an IPv6 address.",
		"docker0 is a device name of the system", "Give the MTU as a number of bytes", `value="Lan!"`, "10.6.0.10 - 10.6.0.20", `value="many"`)
	b.post("/networks", url.Values{"name": {"b"}, "mode": {"nat"}, "gateway4": {"10.5.0.129/25"}, "host": {string(hosts[0])}}, htmxFormHeaders("network-form")...).requireStatus(t, 422).
		contains(t, "10.5.0.128/25 of network b overlaps 10.5.0.0/24 of network lan on host-1.")
	p.addNetwork("theirs", hosts[1])
	b.post("/networks", url.Values{"name": {"theirs"}, "mode": {"isolated"}}, htmxFormHeaders("network-form")...).requireStatus(t, 422).contains(t, "A network named theirs was found on hosts: host-2.")
	// Without JavaScript the form also sends the fields of options that are not chosen.
	form := url.Values{
		"name": {"quiet"}, "mode": {"isolated"}, "device": {"eth1"}, "gateway4": {" 10.8.0.1/24 "}, "ranges4": {"10.8.0.10-10.8.0.20"}, "dns": {"yes"}, "mtu": {"1400"}, "host": {string(hosts[0]), string(hosts[1])},
	}
	made := b.post("/networks", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(made).requireStatus(t, http.StatusOK).contains(t, "quiet", "Pending", "The host has not reported yet.", "Active on 0 of 2 hosts")
	{
		a := b.get(made + "?tab=summary")
		a.contains(t, "Isolated", "10.8.0.0/24", "1400 bytes", "off")
		a.excludes(t, "eth1")
	}
	b.get("/tasks").contains(t, "Assign network")
}

func TestAssignReleaseAndDeleteNetwork(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.getFragment(path+"/assign", "dialog").requireStatus(t, http.StatusOK).contains(t, "This network is already assigned to every host.", `href="`+path+`">Done</a>`)
	more := p.addHost("host-4", 0)
	{
		a := b.get(path+"/assign").requireStatus(t, http.StatusOK)
		a.contains(t, "host-4")
		a.excludes(t, "host-1")
	}
	b.post(path+"/assign", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Choose at least one host.")
	b.post(path+"/assign", url.Values{"host": {string(more)}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, "host-4")
	at := func(host fleet.HostID, act string) string { return path + "/hosts/" + string(host) + "/" + act }
	b.post(at(hosts[1], "retry"), url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.post(at(hosts[0], "retry"), url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "The network is active there.")
	b.get(at(hosts[0], "release")).requireStatus(t, http.StatusOK).contains(t, "Release lan from host-1?")
	b.post(at(hosts[0], "release"), url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "web-1")
	b.post(at(more, "release"), url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, "Being released")
	b.get(at(fleet.NewID[fleet.HostID](), "release")).requireStatus(t, http.StatusNotFound)
	b.get(path+"/delete").requireStatus(t, http.StatusOK).contains(t, "Delete lan?", "It is stopped and undefined in libvirt on host-1, host-2, host-3, host-4.")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "web-1")
	p.execSQL("DELETE FROM vms")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).contains(t, "being deleted", "The network is being deleted. The deletion ends when the last host has released the network.")

	p.addNetwork("theirs", hosts[0])
	found := "/networks/" + string(p.networkID("theirs"))
	b.get(found+"/delete").requireStatus(t, http.StatusOK).contains(t, "The network was discovered on hosts and is not managed here.")
	b.post(found+"/delete", url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "is not managed here.")
}

// API clients can manage networks as on the pages, and get the same reasons for refusals.
func TestAPIManagesNetworks(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	made := admin.call("POST", "/api/v1/networks", `{"name":"six","spec":{"mode":"route","dns":false,"ipv6":{"gateway":"fd00:5::1/64"}},"hostIds":["`+string(hosts[0])+`"]}`).requireStatus(t, http.StatusCreated)
	made.contains(t, `"name":"six"`, `"state":"pending"`, `"assigned":true`)
	at := made.header.Get("Location")
	admin.call("POST", at+"/hosts/"+string(hosts[0])+"/retry", ``).requireStatus(t, http.StatusConflict).contains(t, "The host has not finished yet.")
	admin.call("PUT", at+"/hosts/"+string(hosts[1]), ``).requireStatus(t, http.StatusAccepted).contains(t, "network.apply")
	admin.call("DELETE", at+"/hosts/"+string(hosts[1]), ``).requireStatus(t, http.StatusAccepted).contains(t, "network.release")
	admin.call("DELETE", at, ``).requireStatus(t, http.StatusAccepted)
	admin.call("DELETE", "/api/v1"+path, ``).requireStatus(t, http.StatusConflict).contains(t, "web-1, web-2")
	admin.call("POST", "/api/v1/networks", `{"name":"x","spec":{"mode":"nat","dns":true,"ipv4":{"gateway":"127.0.0.1/8"}},"hostIds":[]}`).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "loopback")
	admin.call("GET", "/api/v1"+path, ``).requireStatus(t, http.StatusOK).contains(t, `"vms":1`, `"byOthers":true`, `"action":"assign","allowed":true`, `"leases":[{"mac":"52:54:00:12:34:56"`)
}
