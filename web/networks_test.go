package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestNetworks(t *testing.T) {
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
	b.get("/menus/network/"+id, "HX-Request", "true").is(t, http.StatusOK).has(t, "Networks are found on hosts.")
	b.get("/networks?filter=nosuch:x").is(t, http.StatusUnprocessableEntity)
	b.get("/networks/"+string(fleet.NewID[fleet.NetworkID]())).is(t, http.StatusNotFound)
}

func TestABridgeIsOpenedToAProject(t *testing.T) {
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
	chief.get("/networks/"+id+"?tab=grants").is(t, http.StatusOK).has(t, "Open to no project", "shop", "All projects")
	chief.post(grants, url.Values{"project": {string(shop)}}, hx("grants")...).is(t, http.StatusOK).has(t, `id="grants"`, `id="grant-`+string(shop))
	mia.get("/vms/new").is(t, http.StatusOK).has(t, "bridge br0 · 1 host · only in shop")
	shown := mia.get("/networks/"+id+"?tab=grants").is(t, http.StatusOK)
	shown.has(t, "shop")
	shown.lacks(t, `<form class="pad`)
	chief.post(grants, url.Values{"project": {string(shop)}, "revoke": {"yes"}}).is(t, http.StatusSeeOther)
	mia.get("/networks/"+id).is(t, http.StatusNotFound)
	chief.post(grants, url.Values{"project": {"all"}}, hx("grants")...).is(t, http.StatusOK).has(t, `id="grant-all"`, "It is open to all.")
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
