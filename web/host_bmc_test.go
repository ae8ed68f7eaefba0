package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

const bmcPassword = "Pa55-of-the-bmc"

// TestBMCIsShownWithoutItsPassword checks the host's page, the dialog and the API, and that no answer contains the password.
func TestBMCIsShownWithoutItsPassword(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	want := func(a answer, texts ...string) {
		t.Helper()
		a.contains(t, texts...)
		a.excludes(t, bmcPassword)
	}
	want(b.get(path), ">BMC</h2>", "Add BMC")
	in := url.Values{"address": {"http://10.0.8.11"}, "user": {"root"}, "password": {bmcPassword}, "trust": {"pin"}}
	want(b.post(path+"/bmc", in, htmxFormHeaders("dialog")...).requireStatus(t, 422), "Use https", `value="root"`)
	in.Set("address", "https://127.0.0.1")
	want(b.post(path+"/bmc", in, htmxFormHeaders("dialog")...).requireStatus(t, 422), "The address 127.0.0.1 is in a private or reserved network")
	in.Set("address", "https://10.0.8.11")
	p.newSignedInBrowser("vera", fleet.RoleViewer).post(path+"/bmc", in).requireStatus(t, http.StatusForbidden)
	b.post(path+"/bmc", in, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	want(b.get(path), "https://10.0.8.11", "Pinned at the first connection", "Unknown", "checking")
	want(b.get(path+"/bmc"), "Edit the BMC of host-1")
	want(b.get("/tasks").requireStatus(t, http.StatusOK))

	p.execSQL(`UPDATE host_bmcs SET spec = spec || jsonb_build_object('fingerprint', repeat('ab', 32)), read_at = now(), checked_at = now() + interval '1 second', asked_at = NULL,
		reading = '{"power":"On","manufacturer":"Dell Inc.","model":"PowerEdge R650","health":"Warning","systemId":"System.Embedded.1"}'`)
	want(b.get(path), ">On", "Dell Inc. PowerEdge R650", ">Warning<", "System.Embedded.1", "abab abab")
	p.execSQL(`UPDATE host_bmcs SET read_at = now() - interval '1 hour', error = 'The BMC 10.0.8.11 did not answer in time.'`)
	want(b.get(path), "Unknown", "did not answer in time")

	api, of := p.newAPIClient("cli", fleet.RoleAdmin, nil), "/api/v1"+path+"/bmc"
	want(api.call("GET", of, "").requireStatus(t, http.StatusOK), `"address":"https://10.0.8.11"`, `"error":"The BMC 10.0.8.11`)
	want(api.call("PUT", of, `{"address":"https://10.0.8.11","user":"root","trust":"pin","password":"`+bmcPassword+`"}`).requireStatus(t, http.StatusOK), `"checking":true`)
	want(api.call("PUT", of, `{"address":"https://10.0.8.12","user":"root","trust":"pin"}`).requireStatus(t, 422), "Enter the password again")
	want(api.call("GET", "/api/v1"+path, ""), `"hasBmc":true`)
	b.post(path+"/bmc/delete", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	api.call("GET", of, "").requireStatus(t, http.StatusNotFound)
}

func TestFencingDialogWarnsAndAsksForTheName(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	for _, id := range []fleet.HostID{well, silent} {
		p.execSQL(`INSERT INTO host_bmcs (host_id, spec, by_key, sealed) VALUES ($1, $2, 'k', '')`, id, `{"address":"https://10.0.8.11","user":"root","trust":"pin","fingerprint":"`+strings.Repeat("ab", 32)+`"}`)
	}
	p.execSQL(`UPDATE hosts SET has_bmc = true`)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/hosts/"+string(well)+"/power-off").contains(t, "host-1 is not in maintenance. Enter maintenance first.", "web-01")
	path := "/hosts/" + string(silent)
	b.get(path+"/power-off").contains(t, "host-2 is offline, so Quantix does not know what runs on it.", "type the host&#39;s name: host-2")
	b.post(path+"/power-off", url.Values{"confirm": {"host-1"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Type the host&#39;s name, host-2.")
	b.post(path+"/power-off", url.Values{"confirm": {"host-2"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"?tab=tasks").contains(t, "Force power off host")
	p.newAPIClient("cli", fleet.RoleAdmin, nil).call("POST", "/api/v1"+path+"/actions", `{"action":"power-on"}`).requireStatus(t, http.StatusConflict).contains(t, "A power task of host-2 has not ended.")
}

// TestTerminationDialogNamesWhatStays checks the dialog and the dry run, and that drain is another word for a maintenance.
func TestTerminationDialogNamesWhatStays(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	b.get(path+"/terminate").contains(t, "Quantix cannot power host-1 off: it has no BMC")
	b.get("/hosts/"+string(silent)+"/terminate").contains(t, "host-2 is offline or has a fault")
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{settings}', '{"hostPower": true}') WHERE id = $1`, well)
	b.get(path+"/terminate").contains(t, "The agent shuts the machine down.", "Needs a decision", "web-01", "legacy-erp", "host-2 is offline.", "No VM may stay on the host.")
	b.post(path+"/terminate", url.Values{"confirm": {"host-1"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Decide what happens to web-01: host-2 is offline.")
	api := p.newAPIClient("cli", fleet.RoleAdmin, nil)
	api.call("POST", "/api/v1"+path+"/actions?dryRun=true", `{"action":"terminate"}`).requireStatus(t, http.StatusOK).contains(t, `"powerOff":"agent"`, `"name":"web-01"`)
	api.call("POST", "/api/v1"+path+"/actions", `{"action":"drain"}`).requireStatus(t, 422).contains(t, "Decide what happens to web-01")
}
