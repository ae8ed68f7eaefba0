package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// TestHostHealthShownFilteredAndResolved uses the tab Health without scripts, as an operator and as others.
func TestHostHealthShownFilteredAndResolved(t *testing.T) {
	p, _, hosts := newPoolPortal(t)
	id := string(hosts[0])
	p.execSQL(`INSERT INTO host_health (host_id) VALUES ($1)`, id)
	p.execSQL(`INSERT INTO host_checks VALUES ($1, 'smart', 'unavailable', 'smartctl is not installed.'), ($1, 'later-check', 'ok', '')`, id)
	p.execSQL(`INSERT INTO host_conditions VALUES ($1, 'smart', 'disk/sda', 'smart-failing', 'warning', 'The disk <b>sda</b> is failing.', '{}', '{}', now(), now(), 1, false),
		($1, 'gpu', 'gpu/0000:41:00.0', 'xid-79', 'critical', 'The GPU has fallen off the bus.', '{}', '{}', now(), now(), 7, true)`, id)
	p.execSQL(`INSERT INTO host_events (host_id, at, kind, check_name, object, code, severity, text, numbers, attributes)
		SELECT $1, now(), 'occurred', 'gpu', 'gpu/0', 'xid-31', 'info', 'event-' || n, '{}', '{}' FROM generate_series(1, 60) n`, id)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	at := "/hosts/" + id
	page := b.get(at+"?tab=health").requireStatus(t, http.StatusOK)
	page.contains(t, "The disk &lt;b&gt;sda&lt;/b&gt; is failing.", "smartctl is not installed.", "later-check", "The GPU has fallen off the bus.", "Not available", "It ends when the check no longer finds it.", "event-60", `rel="next"`)
	page.excludes(t, "event-10<")
	older := b.get(at+"?tab=health&after=11").requireStatus(t, http.StatusOK)
	older.contains(t, "event-10", `rel="prev"`)
	b.get(at+"?tab=health&severity=critical").requireStatus(t, http.StatusOK).contains(t, "No event matches")
	b.get(at+"?tab=health&check=smart").requireStatus(t, http.StatusOK).contains(t, "No event matches", "Show all checks")
	b.get(at+"?tab=health&severity=fatal").requireStatus(t, http.StatusBadRequest)
	b.get(at+"?tab=health&after=x").requireStatus(t, http.StatusBadRequest)
	b.get("/hosts").requireStatus(t, http.StatusOK).contains(t, "2 conditions", at+"?tab=health")
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "The GPU has fallen off the bus.")

	finding := url.Values{"check": {"smart"}, "object": {"disk/sda"}, "code": {"smart-failing"}}
	b.post(at+"/health/resolve", finding).requireStatus(t, http.StatusConflict)
	b.post(at+"/health/resolve", url.Values{"check": {"gpu"}, "object": {"gpu/0000:41:00.0"}, "code": {"xid-79"}}).requireStatus(t, http.StatusSeeOther)
	b.get(at+"?tab=health").requireStatus(t, http.StatusOK).contains(t, "Resolved", "by mara")
	if n := p.countRows("audit WHERE action = 'host.resolve'"); n != 1 {
		t.Errorf("%d resolutions are in the audit", n)
	}

	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 day' WHERE host_id = $1`, id)
	b.get(at+"?tab=health").requireStatus(t, http.StatusOK).contains(t, "The host is offline. Its last report: unavailable")

	viewer := p.newSignedInBrowser("vic", fleet.RoleViewer)
	viewer.get(at+"?tab=health").requireStatus(t, http.StatusOK).contains(t, "You do not have permission")
	viewer.post(at+"/health/resolve", finding).requireStatus(t, http.StatusForbidden)
	tenant := p.newSignedInBrowser("mia", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'mia', 'member' FROM projects LIMIT 1")
	tenant.get(at+"?tab=health").requireStatus(t, http.StatusForbidden)
	tenant.get("/").requireStatus(t, http.StatusOK).excludes(t, "fallen off")

	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	api.call("GET", "/api/v1/hosts/"+id+"/health", ``).requireStatus(t, http.StatusOK).contains(t, `"code":"smart-failing"`, `"state":"unavailable"`)
	api.call("GET", "/api/v1/hosts/"+id+"/events?limit=2&check=gpu", ``).requireStatus(t, http.StatusOK).contains(t, `"older":60`, `"kind":"resolved"`)
	api.call("GET", "/api/v1/hosts/"+id+"/events?limit=501", ``).requireStatus(t, http.StatusUnprocessableEntity)
	api.call("POST", "/api/v1/hosts/"+id+"/health/resolve", `{"check":"gpu","object":"gpu/0","code":"xid-1"}`).requireStatus(t, http.StatusNotFound)
}
