package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestDiscoveredVMPageShowsActionsWithReasons(t *testing.T) {
	p, host, _ := newHostsPortal(t)
	id := fleet.NewID[fleet.VMID]()
	p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'old-crm', $3)", host, id,
		mustJSON(fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 2048, NoConsole: "The VM has no VNC display."}))
	page := "/hosts/" + string(host) + "/found/" + string(id)
	operator, viewer := p.newSignedInBrowser("olga", fleet.RoleOperator), p.newSignedInBrowser("wes", fleet.RoleViewer)

	operator.get(page).requireStatus(t, http.StatusOK).contains(t, "old-crm", "Discovered", "Shut down", "Only a stopped VM can be started.", "The VM has no VNC display.")
	operator.get(page+"/console").requireStatus(t, http.StatusOK).contains(t, `data-reason="The VM has no VNC display."`, `data-autostart="no"`)
	viewer.get(page).requireStatus(t, http.StatusOK).contains(t, "You do not have permission")
	viewer.get(page+"/console").requireStatus(t, http.StatusForbidden)
	viewer.post(page+"/actions", url.Values{"action": {"pause"}}).requireStatus(t, http.StatusForbidden)

	operator.post(page+"/console/ticket", nil, "Accept", "application/json").requireProblem(t, http.StatusConflict, "")
	operator.post(page+"/actions", url.Values{"action": {"start"}}).requireStatus(t, http.StatusConflict).contains(t, "Only a stopped VM can be started.")
	operator.post(page+"/actions", url.Values{"action": {"pause"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("jobs WHERE kind = 'found.pause' AND state = 'queued'"); n != 1 {
		t.Errorf("%d queued jobs", n)
	}
	operator.get("/tasks").requireStatus(t, http.StatusOK).contains(t, "Pause discovered VM", page)
}

func TestVMListLeadsToDiscoveredVMs(t *testing.T) {
	p, _, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	to := b.get("/vms?filter=managed:no+legacy").requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "legacy-erp")
	to = b.get("/vms?tab=found&filter=managed:yes").requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "web-01")
}

func TestDiscoveredVMConsoleOpenedByItsHost(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	id := fleet.NewID[fleet.VMID]()
	s.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'old-crm', $3)", s.host.id, id, mustJSON(fleet.VMStatus{Power: fleet.Running}))
	b := s.newSignedInBrowser("olga", fleet.RoleOperator)
	answer := b.post("/hosts/"+string(s.host.id)+"/found/"+string(id)+"/console/ticket", nil, "Accept", "application/json").requireStatus(t, http.StatusOK)
	var ticket consoleTicketBody
	if err := json.Unmarshal([]byte(answer.body), &ticket); err != nil {
		t.Fatal(err)
	}
	browser, refused := s.openConsole(b, ticket)
	if browser == nil {
		t.Fatalf("%+v", refused)
	}
	w := s.host.claimJob(t)
	if got, ok := w.Subject.DiscoveredVM(); !ok || got != id || w.Kind != fleet.ConsoleOpen || w.VM != nil {
		t.Fatalf("claimed %+v", w)
	}
	host, err := s.host.DialRelay(t.Context(), w.Args.PortalURL, w.Args.Console)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if err := host.WriteMessage(2, []byte("RFB 003.008\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := receiveBytes(browser, 12); err != nil || string(got) != "RFB 003.008\n" {
		t.Errorf("%q %v", got, err)
	}
}
