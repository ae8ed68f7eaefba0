package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// The page of a security group shows its rules and the hosts' packet counters, or "unknown" without a report. A rule
// may refer to the group's own members.
func TestSecurityGroupPageShowsRulesAndCounters(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	network, web, _ := addLeasedNetwork(p)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	to := b.post("/security-groups", url.Values{"name": {"peers"}, "project": {""}}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	id := to[len("/security-groups/"):]
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "No running VM that you can see has a NIC in this group", "unknown")
	b.post(to+"/rules", url.Values{"generation": {"1"}, "direction": {"ingress"}, "protocol": {"tcp"}, "ports": {"22"}, "remote": {id}}).requireStatus(t, http.StatusSeeOther)
	b.get(to).requireStatus(t, http.StatusOK).contains(t, ">members of this group</a>")

	p.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{nics,0,securityGroups}', jsonb_build_array($2::text)), generation = generation + 1, observed_generation = generation + 1 WHERE id = $1`, web, id)
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation) SELECT 'secgroup', $2, host_id, 'assign', '{"active":true}', 9 FROM vms WHERE id = $1`, web, id)
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "The filter state is unknown: hosts report no counters for 1 NIC.")
	b.get("/vms/"+string(web)).requireStatus(t, http.StatusOK).contains(t, "rules not reported")
	p.execSQL(`INSERT INTO host_filter_counts (host_id, at, nics, error)
		SELECT v.host_id, now(), jsonb_build_array(jsonb_build_object('id', v.id, 'mac', lower(v.spec #>> '{nics,0,mac}'), 'sinceMs', 60000, 'dropped', '{"packets":41,"bytes":2460}'::jsonb, 'spoofed', '{"packets":0,"bytes":0}'::jsonb,
			'rules', (SELECT jsonb_agg(jsonb_build_object('rule', r->>'id', 'packets', 1234, 'bytes', 99000)) FROM security_groups g, jsonb_array_elements(g.spec->'rules') r WHERE g.id = $2 AND r->>'direction' = 'ingress'))), ''
		FROM vms v WHERE v.id = $1`, web, id)
	page := b.get(to).requireStatus(t, http.StatusOK)
	page.contains(t, "1234 packets", "0 packets", "Counted at 1 of 1 NIC · since", "41 packets")
	b.get("/vms/"+string(web)).requireStatus(t, http.StatusOK).contains(t, "41 packets dropped", "peers", ": in tcp 22 from members of peers", "1234 packets")
	p.execSQL(`UPDATE assignments SET status = status || '{"drift":"Somebody changed the network filter quantix-group-x on the host."}' WHERE object_id = $1`, id)
	b.get(to+"?tab=hosts").requireStatus(t, http.StatusOK).contains(t, "Somebody changed the network filter")

	// A port group applies the security group to its NICs, and the page of their VM shows the security group.
	b.get(network+"/port-groups").requireStatus(t, http.StatusOK).contains(t, "Default filters of NICs", "peers")
	b.post(network+"/port-groups", url.Values{"name": {"staff"}, "secgroup": {id}, "guard": {"on"}}).requireStatus(t, http.StatusSeeOther)
	b.get(network+"?tab=groups").requireStatus(t, http.StatusOK).contains(t, "NICs in 1 security group, anti-spoofing on")
	b.get(network+"/port-groups?name=staff").requireStatus(t, http.StatusOK).contains(t, `value="`+id+`" checked`, `value="on" selected`)
	p.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{nics,0}', spec #> '{nics,0}' || '{"portGroup":"staff","defaultGroups":true}') WHERE id = $1`, web)
	b.get("/vms/"+string(web)).requireStatus(t, http.StatusOK).contains(t, "security groups from the port group staff")
}
