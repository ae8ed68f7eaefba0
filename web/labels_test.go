package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// The form of a new pool shows errors of the label selector at the selector's field. It lists the matching hosts before
// the pool is saved.
func TestPoolAssignedByLabelSelector(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b, mia := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newSignedInBrowser("mia", fleet.RoleNone)
	h1, h2 := p.addHost("host-1", 0), p.addHost("host-2", 0)
	p.execSQL(`UPDATE hosts SET spec = '{"labels":{"rack":"4","ssd":"yes"}}'`)
	p.addHost("host-3", 0)
	fast := p.addPool("fast", h1)

	var both answer
	form := url.Values{"name": {"other"}, "kind": {"dir"}, "path": {"/srv/other"}, "selector": {"Rack=4"}}
	b.post("/pools", form, htmxFormHeaders("pool-form")...).requireStatus(t, 422).contains(t, `id="selector-error"`, `Label key &#34;Rack&#34;`, `value="Rack=4"`)
	form.Set("selector", "rack=4, ssd")
	form.Set("name", "Not A Name")
	both = b.post("/pools", form, htmxFormHeaders("pool-form")...).requireStatus(t, 422)
	both.contains(t, "2 hosts match: host-1, host-2. None of these hosts is assigned yet.")
	both.excludes(t, `id="selector-error"`)

	look := "/hosts/labelled?of=pool:" + string(fast) + "&selector="
	b.get(look+"rack%3D4", "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, "2 hosts match: host-2, host-1. 1 of these hosts is not assigned yet: host-2.")
	b.get(look+"rack%3D5", "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, "No host has all of these labels now.")
	b.get(look+"Rack", "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, `Label key &#34;Rack&#34;`)
	b.get(look, "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, "hint")
	mia.get(look+"rack%3D4").requireStatus(t, http.StatusForbidden)

	page := "/pools/" + string(fast)
	b.get(page+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, "Assigned by label", "none: no automatic assignment", page+"/labels")
	b.get(page+"/labels?selector=ssd").requireStatus(t, http.StatusOK).contains(t, `value="ssd"`, "2 hosts match", "Show the hosts with these labels") // without JavaScript
	b.post(page+"/labels", url.Values{"selector": {"rack="}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Write rack=value")
	mia.post(page+"/labels", url.Values{"selector": {"rack"}}).requireStatus(t, http.StatusForbidden)
	b.post(page+"/labels", url.Values{"selector": {"rack=4"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	if n := p.countRows("assignments WHERE asked = 'assign' AND object_id = '" + string(fast) + "'"); n != 2 {
		t.Errorf("%d hosts have the pool", n)
	}
	p.execSQL(`UPDATE assignments SET status = '{"state":"active"}' WHERE host_id = $1`, h2)
	b.post(page+"/hosts/"+string(h2)+"/release", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	p.execSQL(`UPDATE hosts SET spec = '{}' WHERE id = $1`, h1)
	b.get(page+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, "rack=4", "Assigned without the labels", "host-1", "Released by a user; not assigned again by label.")
	b.get(page).requireStatus(t, http.StatusOK).excludes(t, "Hosts with the labels")
	p.execSQL(`UPDATE left_out SET why = 'Pool x uses /srv on host-2 already.'`)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Hosts with the labels rack=4 are not assigned.", "host-2: Pool x uses /srv on host-2 already.")
}

// One button retries the pool on all hosts where it failed.
func TestRetryAllFailedHosts(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b, admin := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newAPIClient("ann", fleet.RoleAdmin, nil)
	h1, h2, h3 := p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", 0)
	fast := p.addPool("fast", h1, h2, h3)
	page := "/pools/" + string(fast)
	p.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"x"}' WHERE host_id = $1`, h1)
	both := b.get(page).requireStatus(t, http.StatusOK)
	both.contains(t, "Retry host-1")
	both.excludes(t, "failed hosts")
	p.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"x"}'`)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Retry 3 failed hosts", page+"/retry")
	p.newSignedInBrowser("vera", fleet.RoleViewer).get(page).requireStatus(t, http.StatusOK).contains(t, "Retry 3 failed hosts", "You do not have permission to")
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 minute' WHERE host_id = $1`, h3)
	a := b.post(page+"/retry", url.Values{}, "HX-Request", "true").requireStatus(t, http.StatusNoContent)
	var said map[string]struct{ Text string }
	_ = json.Unmarshal([]byte(a.header.Get("HX-Trigger")), &said)
	if got, want := said["toast"].Text, "2 hosts will try again. Offline: 1 host; they try again when they are online."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	admin.call("POST", "/api/v1"+page+"/retry", "").requireStatus(t, http.StatusAccepted).contains(t, `"offline":1`, `"more":0`, `"kind":"pool.apply"`)
	admin.call("PUT", "/api/v1"+page+"/selector", `{"selector":"ssd,rack=4"}`).requireStatus(t, http.StatusOK).contains(t, `"selector":"rack=4, ssd"`)
	admin.call("GET", "/api/v1"+page+"/selector", "").requireStatus(t, http.StatusOK).contains(t, `"left":[]`, `"besideAll":3`)
	p.execSQL(`UPDATE assignments SET status = '{"state":"active"}'`)
	admin.call("POST", "/api/v1"+page+"/retry", "").requireStatus(t, http.StatusConflict).contains(t, "failed on none of its hosts")
}
