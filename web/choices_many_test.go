//go:build ordeal

package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// addManyObjects creates more objects of each type than one select shows. Each pool has an ISO and an image.
func (p *portal) addManyObjects() (host fleet.HostID) {
	p.t.Helper()
	for i := range 600 {
		host = p.addHost(fmt.Sprintf("host-%03d", i), 0)
		p.addProject(fmt.Sprintf("project-%03d", i))
	}
	for i := range 600 {
		p.addPool(fmt.Sprintf("pool-%03d", i), host)
		p.addNetwork(fmt.Sprintf("net-%03d", i), host)
		p.addUser(fmt.Sprintf("user-%03d", i), fleet.RoleNone)
	}
	return host
}

func TestSelectFindsOptionAmongSixHundred(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := p.addManyObjects()
	project, network := p.addProject("shop"), ""
	vm := p.addVM(project, host, "web", fleet.Stopped)
	if err := p.pool.QueryRow(t.Context(), "UPDATE networks SET kind = 'bridge' WHERE name = 'net-007' RETURNING id").Scan(&network); err != nil {
		t.Fatal(err)
	}
	if _, err := p.pool.Exec(t.Context(), "DELETE FROM network_grants WHERE network_id = $1", network); err != nil { // otherwise every project may use it
		t.Fatal(err)
	}
	ann := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	var a answer
	form := ann.get("/vms/new").requireStatus(t, http.StatusOK)
	for typ, name := range map[string]string{
		"projects": "project-%03d", "hosts": "host-%03d", "pools": "pool-%03d · ", "isos": "600 MiB · pool-%03d", "networks": "net-%03d", "images": "of pool-%03d (3 GiB, checksum not verified",
	} {
		form.contains(t, `hx-get="/choices/`+typ+`"`, fmt.Sprintf(name, 7))
		form.excludes(t, fmt.Sprintf(name, 577)) // too many for one select
		found := ann.get("/choices/"+typ+"?q="+url.QueryEscape(strings.ToUpper(fmt.Sprintf(name, 577))), "HX-Request", "true").requireStatus(t, http.StatusOK)
		found.contains(t, fmt.Sprintf(name, 577))
		if n := strings.Count(found.body, "<option"); n > 2 {
			t.Errorf("%s: the select has %d options", typ, n)
		}
		if none := ann.get("/choices/"+typ+"?q=%22nobody", "HX-Request", "true").requireStatus(t, http.StatusOK); strings.Count(none.body, "<option") != 1 {
			t.Errorf("%s: a search without a match answers: %s", typ, none.body)
		}
	}
	a = ann.get("/vms/new?all=1").requireStatus(t, http.StatusOK)
	a.contains(t, "project-577", "host-577", "net-577", "600 MiB · pool-577")
	a.excludes(t, "/choices/")
	for address, name := range map[string]string{
		"/choices/members?of=" + string(project) + "&q=577": "user-577", "/choices/grants?of=" + network + "&q=577": "project-577",
	} {
		ann.get(address, "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, name)
	}
	a = ann.get("/projects/"+string(project)).requireStatus(t, http.StatusOK)
	a.contains(t, "/choices/members?of="+string(project))
	a.excludes(t, "user-577")
	a = ann.get("/networks/"+network+"?tab=grants").requireStatus(t, http.StatusOK)
	a.contains(t, "/choices/grants?of="+network, `<option value="all"`)
	a.excludes(t, "project-577")
	ann.get("/vms/"+string(vm)+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, `hx-get="/choices/isos"`)

	// After an error, the form is shown again with the chosen option selected.
	value := func(typ, name string) string {
		_, rest, _ := strings.Cut(ann.get("/choices/"+typ+"?q="+name, "HX-Request", "true").body, `value="`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	chosen := url.Values{
		"projectId": {value("projects", "project-577")}, "hostId": {value("hosts", "host-577")}, "spec.iso": {value("isos", "pool-577")},
		"spec.disks[0].poolId": {value("pools", "pool-577")}, "spec.disks[0].source": {"empty"}, "spec.disks[0].sizeBytes": {"1"}, "spec.nics[0].network": {value("networks", "net-577")}, "q": {"577", ""},
	}
	again := ann.post("/vms", chosen).requireStatus(t, http.StatusUnprocessableEntity)
	for field, v := range chosen {
		if field != "q" && field != "spec.disks[0].source" && field != "spec.disks[0].sizeBytes" {
			again.contains(t, `value="`+v[0]+`" selected`)
		}
	}
	// The form of a new pool lists all hosts, however many there are.
	ann.get("/pools/new").requireStatus(t, http.StatusOK).contains(t, "host-577")
}
