package web_test

import (
	"net/http"
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
