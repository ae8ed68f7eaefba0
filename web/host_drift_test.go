package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestPoolDriftShownIgnoredAndReapplied(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	for _, host := range []fleet.HostID{hosts[0], hosts[2]} {
		p.execSQL(`UPDATE assignments SET status = status || '{"drift": [{"field": "path", "applied": "/mnt/shared-nfs", "actual": "/mnt/<other>"}]}' WHERE pool_id = $1 AND host_id = $2`, pool, host)
	}
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	at := path + "/hosts/" + string(hosts[0])
	const badge = `title="Changed on 1 host"`
	b.get("/pools?filter="+url.QueryEscape("drift:yes")).requireStatus(t, http.StatusOK).contains(t, "shared-nfs", badge, "Drift (1)")
	b.get("/pools?filter="+url.QueryEscape("drift:no")).requireStatus(t, http.StatusOK).excludes(t, badge)
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "The definition on the host differs from what was set here (drift).")
	a := b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, badge, "Changed on a host", "<th>Wanted</th><th>Last applied</th><th>On the host</th>", "/mnt/&lt;other&gt;", "Changed on the host: Path.",
		"The kind and the location of a pool are fixed.", at+"/ignore-drift", at+"/reapply", "offline, last report", "The host is offline, so its definition is unknown.")
	b.post(at+"/ignore-drift", url.Values{"field": {"path"}, "actual": {"/mnt/third"}}).requireStatus(t, http.StatusConflict)
	b.post(at+"/ignore-drift", url.Values{"field": {"path"}, "actual": {"/mnt/<other>"}}).requireStatus(t, http.StatusSeeOther)
	a = b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, `<h3 class="pad">Ignored</h3>`, "Show again")
	a.excludes(t, badge, "Changed on the host: Path.")
	b.get("/pools?filter="+url.QueryEscape("drift:yes")).requireStatus(t, http.StatusOK).excludes(t, "shared-nfs")
	b.post(at+"/show-drift", url.Values{"field": {"path"}}).requireStatus(t, http.StatusSeeOther)
	b.post(at+"/reapply", url.Values{}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("jobs WHERE kind = 'pool.reapply' AND state = 'queued'"); n != 1 {
		t.Errorf("%d reapplies are queued", n)
	}
	viewer := p.newSignedInBrowser("vic", fleet.RoleViewer)
	viewer.get(path).requireStatus(t, http.StatusOK).contains(t, "/mnt/&lt;other&gt;", "You do not have permission")
	viewer.post(at+"/reapply", url.Values{}).requireStatus(t, http.StatusForbidden)
	tenant := p.newSignedInBrowser("mia", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'mia', 'member' FROM projects LIMIT 1")
	tenant.get(path).requireStatus(t, http.StatusOK).excludes(t, "Drift (", "&lt;other&gt;")
}

func TestNetworkDriftShownAndAccepted(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	for host, mtu := range map[fleet.HostID]string{hosts[0]: "9000", hosts[1]: "1400"} {
		p.execSQL(`UPDATE assignments SET status = status || jsonb_build_object('drift', jsonb_build_array(jsonb_build_object('field', 'mtu', 'applied', 'default', 'actual', $2::text, 'take', $2::integer),
			jsonb_build_object('field', 'bridge', 'applied', 'virbr1', 'actual', 'br' || $2::text))) WHERE network_id IS NOT NULL AND host_id = $1 AND asked = 'assign'`, host, mtu)
	}
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	at := path + "/hosts/" + string(hosts[0])
	b.get("/networks?filter="+url.QueryEscape("drift:yes")).requireStatus(t, http.StatusOK).contains(t, ">lan<", "Drift (2)")
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "The definition on the host differs from what was set here (drift).")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Changed on a host", "br9000", "MTU was changed on host-2, too, to another value.", "This setting of a network is fixed.")
	b.post(at+"/accept-drift", url.Values{"field": {"mtu"}, "actual": {"9000"}}).requireStatus(t, http.StatusConflict).contains(t, "MTU was changed on host-2, too")
	p.execSQL(`UPDATE assignments SET status = status - 'drift' WHERE host_id = $1`, hosts[1])
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Drift (1)", at+"/accept-drift")
	b.post(at+"/accept-drift", url.Values{"field": {"mtu"}, "actual": {"9000"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("networks WHERE spec->>'mtu' = '9000'"); n != 1 {
		t.Errorf("%d networks have the accepted value", n)
	}
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	api.call("GET", "/api/v1"+path+"/hosts", ``).requireStatus(t, http.StatusOK).contains(t, `"drift":[{"field":"mtu","applied":"default","actual":"9000","take":9000}`)
	api.call("POST", "/api/v1"+at+"/ignore-drift", `{"fields":["bridge"]}`).requireStatus(t, http.StatusNoContent)
	api.call("GET", "/api/v1"+path+"/hosts", ``).requireStatus(t, http.StatusOK).contains(t, `"actual":"br9000","ignored":true`)
	api.call("POST", "/api/v1"+at+"/show-drift", `{"fields":["bridge"]}`).requireStatus(t, http.StatusNoContent)
	api.call("POST", "/api/v1"+at+"/reapply", ``).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"network.reapply"`)
	api.call("GET", "/api/v1/networks?filter=drift:yes", ``).requireStatus(t, http.StatusOK).contains(t, `"name":"lan"`, `"drifted":1`)
}
