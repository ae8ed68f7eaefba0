package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
)

// newAdoptablePortal returns a portal with two hosts that have a pool and a network of their own, and the hosts' IDs.
func newAdoptablePortal(t *testing.T) (p *portal, first, second fleet.HostID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	first, second = p.addHost("host-1", 0), p.addHost("host-2", 0)
	pools := []fleet.DiscoveredPool{
		{Name: "default", Kind: "dir", Place: "at /srv/imgs", Active: true, Spec: &fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/imgs"}},
		{Name: "tank", Kind: "zfs", Adoptability: fleet.Adoptability{Refusal: "Quantix has no pools of the type zfs."}},
	}
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{discoveredPools}', $1)`, mustJSON(pools))
	p.execSQL(`INSERT INTO networks (id, name, kind) VALUES ('00000000-0000-7000-8000-00000000a001', 'lab', 'libvirt')`)
	status := fleet.NetworkStatus{Active: true, Bridge: "virbr7", Definition: &fleet.HostNetworkDefinition{
		Spec: &fleet.NetworkSpec{Mode: fleet.NetworkIsolated, DNS: true, Bridge: "virbr7"}, Adoptability: fleet.Adoptability{Kept: []string{"DNS"}},
	}}
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', '00000000-0000-7000-8000-00000000a001', id, $1 FROM hosts`, mustJSON(status))
	return p, first, second
}

func TestPoolIsAdoptedOnHostPage(t *testing.T) {
	p, first, second := newAdoptablePortal(t)
	b, viewer := p.newSignedInBrowser("olga", fleet.RoleOperator), p.newSignedInBrowser("wes", fleet.RoleViewer)
	host := "/hosts/" + string(first)
	dialog := host + "/discovered-pools/default/adopt"
	b.get(host+"?tab=storage").requireStatus(t, http.StatusOK).contains(t, `href="`+dialog+`"`, "Quantix has no pools of the type zfs.")
	seen := viewer.get(host+"?tab=storage").requireStatus(t, http.StatusOK)
	seen.contains(t, "You do not have permission")
	seen.excludes(t, `href="`+dialog+`"`)
	viewer.get(dialog).requireStatus(t, http.StatusForbidden)
	viewer.post(dialog, nil).requireStatus(t, http.StatusForbidden)
	b.get(dialog).requireStatus(t, http.StatusOK).contains(t, "Adopt the pool default of host-1", "/srv/imgs", "host-2")
	b.get(host+"/discovered-pools/tank/adopt").requireStatus(t, http.StatusOK).contains(t, "Quantix has no pools of the type zfs.", "disabled")
	b.get(host+"/discovered-pools/none/adopt").requireStatus(t, http.StatusNotFound)
	b.post(host+"/discovered-pools/tank/adopt", nil).requireStatus(t, http.StatusConflict)

	page := b.post(dialog, url.Values{"host": {string(second)}}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(page, "/pools/") {
		t.Fatalf("after the adoption, the browser is sent to %s", page)
	}
	p.execSQL(`UPDATE assignments SET status = '{"state":"active","preexisting":true}' WHERE noun = 'pool'`)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "host-1", "host-2", "Existed before Quantix: stays on the host after a release.")
	b.get(page+"/delete").requireStatus(t, http.StatusOK).contains(t, "stays on the host, because it existed before Quantix")
	b.get(page+"/hosts/"+string(first)+"/release").requireStatus(t, http.StatusOK).contains(t, "The pool stays on host-1 unchanged, because it existed before Quantix.")
	b.get(host+"?tab=storage").requireStatus(t, http.StatusOK).excludes(t, `href="`+dialog+`"`)
}

func TestNetworkIsAdoptedOnHostPage(t *testing.T) {
	p, first, second := newAdoptablePortal(t)
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	host := "/hosts/" + string(first)
	dialog := host + "/discovered-networks/lab/adopt"
	b.get(host+"?tab=networks").requireStatus(t, http.StatusOK).contains(t, "Discovered networks", `href="`+dialog+`"`)
	b.get(dialog).requireStatus(t, http.StatusOK).contains(t, "Adopt the network lab of host-1", "virbr7", "They stay as the host has them: DNS", "host-2")
	page := b.post(dialog, nil).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Adopted", "Existed before Quantix", "Not assigned: the host has a network of this name.")
	b.get(page+"?tab=summary").requireStatus(t, http.StatusOK).contains(t, "Quantix never changes its definition.")
	b.get(page+"?tab=groups").requireStatus(t, http.StatusOK).contains(t, "Change the network on the hosts with virsh net-edit")
	b.get(page+"/delete").requireStatus(t, http.StatusOK).contains(t, "because it existed before Quantix")
	b.get("/hosts/"+string(second)+"/discovered-networks/lab/adopt").requireStatus(t, http.StatusOK).contains(t, "Quantix has an equal network with this name already.")
}

func TestDiscoveredPoolsAndNetworksAreListedAndAdoptedByAPI(t *testing.T) {
	p, first, _ := newAdoptablePortal(t)
	b := p.newAPIClient("olga", fleet.RoleOperator, nil)
	host := "/api/v1/hosts/" + string(first)
	pools := decodeItems[fleet.DiscoveredPool](t, b.call("GET", host+"/discovered-pools", ""))
	if len(pools) != 2 || pools[0].Name != "default" || pools[0].Spec == nil || pools[1].Refusal == "" {
		t.Errorf("the discovered pools are %+v", pools)
	}
	networks := decodeItems[adoption.DiscoveredNetwork](t, b.call("GET", host+"/discovered-networks", ""))
	if len(networks) != 1 || networks[0].Name != "lab" || networks[0].Bridge != "virbr7" || len(networks[0].Kept) != 1 {
		t.Errorf("the discovered networks are %+v", networks)
	}
	for list, path := range map[string]string{"discovered-pools/default": "/api/v1/pools/", "discovered-networks/lab": "/api/v1/networks/"} {
		made := b.call("POST", host+"/"+list+"/adopt", "").requireStatus(t, http.StatusCreated)
		if at := made.header.Get("Location"); !strings.HasPrefix(at, path) {
			t.Errorf("the location of %s is %q", list, at)
		}
		b.call("POST", host+"/"+list+"/adopt", "").requireProblem(t, http.StatusNotFound, "")
	}
	b.call("POST", host+"/discovered-pools/tank/adopt", "").requireProblem(t, http.StatusConflict, "")
}

func decodeItems[T any](t *testing.T, a answer) []T {
	t.Helper()
	var page fleet.Page[T]
	if err := json.Unmarshal([]byte(a.requireStatus(t, http.StatusOK).body), &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}
