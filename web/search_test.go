package web_test

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

func TestSearchFindsVMsByAddressAndMAC(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	host, old := p.addHost("host-9", 0), fleet.NewID[fleet.VMID]()
	p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', $3)", host, old,
		mustJSON(fleet.VMStatus{Power: fleet.Running, NICs: []fleet.NICState{{MAC: "52:54:00:99:00:01", Addresses: []string{"10.4.9.9"}}}}))
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/search?q=10.4.").requireStatus(t, http.StatusOK)
	a.contains(t, "/vms/"+string(vms["web-01"]), "10.4.0.11", "10.4.9.9, discovered on host-9")
	page := "/hosts/" + string(host) + "/found/" + string(old)
	a.contains(t, page)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "legacy")
	a = b.get("/search/suggest?q=52:54:00:99", "HX-Request", "true").requireStatus(t, http.StatusOK)
	a.contains(t, "legacy")
	a.excludes(t, "web-01")
}
