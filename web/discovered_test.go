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

func TestDiscoveredVMAdoptedByPage(t *testing.T) {
	p, host, _ := newHostsPortal(t)
	project := fleet.NewID[fleet.ProjectID]()
	p.execSQL("INSERT INTO projects (id, name) VALUES ($1, 'erp')", project)
	var ids []string
	for _, name := range []string{"old-crm", "old-shop"} {
		id := fleet.NewID[fleet.VMID]()
		ids = append(ids, string(id))
		p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, $3, $4)", host, id, name, mustJSON(fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 2048}))
	}
	page := "/hosts/" + string(host) + "/found/" + ids[0]
	operator, viewer := p.newSignedInBrowser("olga", fleet.RoleOperator), p.newSignedInBrowser("wes", fleet.RoleViewer)
	operator.get(page).requireStatus(t, http.StatusOK).contains(t, "Adopt…", page+"/adopt")
	operator.get(page+"/adopt").requireStatus(t, http.StatusOK).contains(t, "Adopt old-crm?", "Its guest runs on", "erp", "2 vCPUs")
	operator.get("/menus/found/"+string(host)+"/"+ids[0]).requireStatus(t, http.StatusOK).contains(t, "Adopt…", "Shut down")
	operator.get("/vms?tab=found").requireStatus(t, http.StatusOK).contains(t, `value="`+string(host)+"/"+ids[0]+`"`, "/vms/found/adopt")
	operator.get("/hosts/"+string(host)+"?tab=vms").requireStatus(t, http.StatusOK).contains(t, `value="`+string(host)+"/"+ids[0]+`"`, "/vms/found/adopt")
	viewer.get(page+"/adopt").requireStatus(t, http.StatusForbidden)
	viewer.post("/vms/found/adopt", url.Values{"id": {string(host) + "/" + ids[0]}}).requireStatus(t, http.StatusForbidden)

	operator.post(page+"/adopt", url.Values{"projectId": {""}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose the project.")
	operator.post(page+"/adopt", url.Values{"projectId": {string(project)}, "name": {"Not A Name"}}).requireStatus(t, http.StatusConflict).contains(t, "lower-case letters")
	operator.post(page+"/adopt", url.Values{"projectId": {string(project)}, "name": {"crm"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("jobs WHERE kind = 'found.adopt' AND args->'adopt'->>'name' = 'crm'"); n != 1 {
		t.Errorf("%d adoptions queued, want one", n)
	}

	many := url.Values{"id": {string(host) + "/" + ids[0], string(host) + "/" + ids[1], "nonsense"}}
	operator.post("/vms/found/adopt", many).requireStatus(t, http.StatusOK).contains(t, "Adopt 3 VMs?", "erp")
	many.Set("sure", "yes")
	many.Set("projectId", string(project))
	to := operator.post("/vms/found/adopt", many).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	operator.get(to).requireStatus(t, http.StatusOK).contains(t, "Adopt", "2 VMs")
	operator.post("/vms/found/adopt", url.Values{"id": {"nonsense"}}).requireStatus(t, http.StatusBadRequest)

	operator.get("/vms?tab=found").requireStatus(t, http.StatusOK).contains(t, `formaction="/vms/found/actions"`, "Reset…")
	act := url.Values{"action": {"reset"}, "id": many["id"]}
	viewer.post("/vms/found/actions", act).requireStatus(t, http.StatusForbidden)
	operator.post("/vms/found/actions", act).requireStatus(t, http.StatusOK).contains(t, "Reset 3 VMs?", "/vms/found/actions")
	act.Set("sure", "yes")
	to = operator.post("/vms/found/actions", act).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	operator.get(to).requireStatus(t, http.StatusOK).contains(t, "Reset discovered VM", "2 VMs")
	operator.post("/vms/found/actions", url.Values{"action": {"shutdown"}}).requireStatus(t, http.StatusBadRequest)

	p.execSQL("DELETE FROM found_vms WHERE id = $1", ids[0])
	p.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, adoption) VALUES ($1, $2, $3, 'crm', '{"power":"stopped","cpus":1,"memoryMiB":128,"firmware":"bios"}',
		'{"at":"2026-01-02T03:04:05Z","by":"ann","hostName":"kvm-7","verbatim":["sound card: ICH9","a","b"]}')`, ids[0], project, host)
	vm := "/vms/" + ids[0]
	operator.get(vm).requireStatus(t, http.StatusOK).contains(t, "Adopted", "by ann from kvm-7", "3 parts of the definition kept", vm+"?tab=configure#verbatim")
	if to := operator.get(page+"/adopt").requireStatus(t, http.StatusSeeOther).header.Get("Location"); to != vm {
		t.Errorf("the dialog of an adopted VM leads to %s, want its page", to)
	}
	operator.post(page+"/adopt", url.Values{"projectId": {string(project)}}).requireStatus(t, http.StatusConflict).contains(t, "crm is adopted already, in project erp")
	release := url.Values{"action": {"release"}, "id": {ids[0]}}
	operator.get("/vms").requireStatus(t, http.StatusOK).contains(t, "Release…")
	operator.post("/vms/bulk", release).requireStatus(t, http.StatusOK).contains(t, "Release 1 VM?", "Their guests run on")
	release.Set("sure", "yes")
	to = operator.post("/vms/bulk", release).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	operator.get(to).requireStatus(t, http.StatusOK).contains(t, "Release", "1 VM")
}

func TestAdoptionAndReleaseByAPI(t *testing.T) {
	p, host, _ := newHostsPortal(t)
	project := fleet.NewID[fleet.ProjectID]()
	p.execSQL("INSERT INTO projects (id, name) VALUES ($1, 'erp')", project)
	id := fleet.NewID[fleet.VMID]()
	p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'old-crm', $3)", host, id,
		mustJSON(fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 2048, Disks: []fleet.DiskState{{Target: "vda", Path: "/data/a.img"}}}))
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	path, body := "/api/v1/hosts/"+string(host)+"/discovered-vms/"+string(id)+"/adopt", `{"projectId":"`+string(project)+`"}`
	api.call("POST", path+"?dryRun=true", body).requireStatus(t, http.StatusAccepted).contains(t, `"plan"`, "Adopt or create a pool with the path /data first")
	api.call("POST", path, body).requireProblem(t, http.StatusConflict, "")
	p.execSQL("UPDATE found_vms SET status = status - 'disks'")
	api.call("POST", path, body).requireStatus(t, http.StatusAccepted).contains(t, `"found.adopt"`)
	api.call("POST", "/api/v1/discovered-vms/adopt", `{"projectId":"`+string(project)+`","vms":[{"hostId":"`+string(host)+`","id":"`+string(id)+`"}]}`).
		requireStatus(t, http.StatusAccepted).contains(t, `"1 VM"`)
	api.call("POST", "/api/v1/discovered-vms/actions", `{"action":"pause","vms":[{"hostId":"`+string(host)+`","id":"`+string(id)+`"}]}`).
		requireStatus(t, http.StatusAccepted).contains(t, `"found.pause"`, `"1 VM"`)
	api.call("POST", "/api/v1/vms/release", `{"ids":["`+string(id)+`"]}`).requireStatus(t, http.StatusAccepted).contains(t, `"vm.release"`, `"1 VM"`)

	vm := fleet.NewID[fleet.VMID]()
	p.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ($1, $2, $3, 'crm', '{"power":"stopped","cpus":1,"memoryMiB":128,"firmware":"bios"}')`, vm, project, host)
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	b.get("/vms/"+string(vm)+"/release").requireStatus(t, http.StatusOK).contains(t, "Release crm?", "Quantix forgets the VM")
	api.call("POST", "/api/v1/vms/"+string(vm)+"/release", "").requireStatus(t, http.StatusAccepted).contains(t, `"vm.release"`)
	b.post("/vms/"+string(vm)+"/release", nil).requireStatus(t, http.StatusSeeOther)
}
