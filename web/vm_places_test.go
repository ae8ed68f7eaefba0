package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportingAgent is the simulated agent of a host, with a session. It passes its reports directly to control.
type reportingAgent struct {
	*portal
	actor fleet.Actor
	seq   int64
}

func (p *portal) newReportingAgent(name string) *reportingAgent {
	p.t.Helper()
	s := &reportingAgent{portal: p, actor: fleet.Actor{Name: name}}
	if err := p.pool.QueryRow(p.t.Context(), "SELECT id FROM hosts WHERE name = $1", name).Scan(&s.actor.HostID); err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.control.Hello(p.t.Context(), s.actor, wire.Hello{Instance: name, Fingerprint: name})
	if err != nil {
		p.t.Fatal(err)
	}
	s.actor.Session, s.seq = answer.Session, answer.SeqBase
	return s
}

// reportVM reports only this VM, in the given power state and with the VM's ownership mark in the domain's metadata.
func (s *reportingAgent) reportVM(id fleet.VMID, power fleet.Power) {
	s.t.Helper()
	var mark string
	if err := s.pool.QueryRow(s.t.Context(), "SELECT mark FROM vm_marks WHERE vm_id = $1", id).Scan(&mark); err != nil {
		s.t.Fatal(err)
	}
	s.seq++
	_, err := s.control.Report(s.t.Context(), s.actor, wire.Report{Seq: s.seq, Digest: string(power), State: &wire.State{
		Host: fleet.HostStatus{Connected: true},
		VMs:  []wire.VMReport{{ID: id, Name: "web-01", Generation: 1, Status: fleet.VMStatus{Power: power, CPUs: 2, MemoryMiB: 4096}, Proof: wire.OwnershipProof(id, mark)}},
	}})
	if err == nil {
		err = s.control.ReassignMovedVMs(s.t.Context(), fleet.SystemActor)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestVMRunningOnTwoHostsShown(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	id := vms["web-01"]
	page, api := "/vms/"+string(id), "/api/v1/vms/"+string(id)
	h1, h2 := p.newReportingAgent("host-1"), p.newReportingAgent("host-2")
	h2.reportVM(id, fleet.Running)
	h1.reportVM(id, fleet.Running)
	h2.reportVM(id, fleet.Running)

	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, "Runs on two hosts", "host-1 and host-2 both run the VM", "Hosts with this VM", "Keep on host-1", "Keep on host-2", "The VM runs on two hosts at once. No action is possible until", "Two guests that write to the same disks destroy them. No action is possible until")
	a.excludes(t, `value="shutdown"`, `value="stop"`, `value="reset"`)
	b.get("/vms?tab=attention").requireStatus(t, http.StatusOK).contains(t, ">web-01<", "Runs on two hosts")
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, ">web-01</a>", "host-1 and host-2 both run the VM")
	b.post(page+"/actions", url.Values{"action": {"stop"}}).requireStatus(t, http.StatusConflict).contains(t, "runs on two hosts")

	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	admin.call("GET", api, "").requireStatus(t, http.StatusOK).contains(t, `"code":"twoPlaces"`, `"hostName":"host-2"`, `"alarm":true`)
	admin.call("POST", api+"/actions", `{"action":"stop"}`).requireStatus(t, http.StatusConflict).contains(t, "runs on two hosts")
	admin.call("PATCH", api, `{"spec":{"cpus":4}}`).requireStatus(t, http.StatusConflict)
	admin.call("DELETE", api, "").requireStatus(t, http.StatusConflict)
	bulk := b.post("/vms/bulk", url.Values{"action": {"stop"}, "vm": {string(id)}})
	if n := p.countRows("jobs WHERE state = 'queued'"); n != 0 {
		t.Errorf("%d tasks were queued; the bulk action answered %d", n, bulk.status)
	}

	tenant := p.newTenantBrowser("mia", project)
	a = tenant.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, "Runs on two hosts", "The VM runs in two places at once.")
	a.excludes(t, "host-1", "host-2", "Hosts with this VM", "Keep on")
	tenant.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).requireStatus(t, http.StatusForbidden)
	viewer := p.newSignedInBrowser("vic", fleet.RoleViewer)
	viewer.get(page).requireStatus(t, http.StatusOK).contains(t, "Hosts with this VM", "Only users who may change hosts can set which host a VM is on.")
	viewer.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).requireStatus(t, http.StatusForbidden)

	b.post(page+"/place/nowhere", url.Values{}).requireStatus(t, http.StatusConflict)
	b.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).requireStatus(t, http.StatusSeeOther)
	a = b.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, ">host-2</a>", "Hosts with this VM", "not this VM, by a user", `value="shutdown"`)
	a.excludes(t, "Runs on two hosts")
	b.get(page+"?tab=events").requireStatus(t, http.StatusOK).contains(t, "vm.alarm", "vm.place", "host-1 → host-2")
	a = tenant.get(page+"?tab=events").requireStatus(t, http.StatusOK)
	a.contains(t, "vm.place")
	a.excludes(t, "host-1", "host-2")
	admin.call("POST", api+"/place", `{"hostId":"`+string(h1.actor.HostID)+`"}`).requireStatus(t, http.StatusOK).contains(t, `"hostName":"host-1"`)
}

func TestStartRefusedWhileVMRunsOnDifferentHost(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	id := vms["web-02"]
	p.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, true FROM hosts WHERE name = 'host-1'`, id)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/vms/"+string(id)).requireStatus(t, http.StatusOK)
	a.contains(t, "host-1 reports a guest with this UUID")
	a.excludes(t, `value="start"`)
	b.post("/vms/"+string(id)+"/actions", url.Values{"action": {"start"}}).requireStatus(t, http.StatusConflict).contains(t, "host-1 reports a guest with this UUID, running.")
}

// Any host can report a domain with any UUID. A domain without the ownership mark in its metadata is shown, but blocks
// no actions on the VM while the VM's own host is online.
func TestDomainWithoutOwnershipMarkDoesNotBlockStart(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	id := vms["web-02"]
	p.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, false FROM hosts WHERE name = 'host-1'`, id)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms/"+string(id)).requireStatus(t, http.StatusOK).contains(t, "metadata", "This domain does not carry the mark of this", `value="start"`)
	b.post("/vms/"+string(id)+"/actions", url.Values{"action": {"start"}}).requireStatus(t, http.StatusSeeOther)
}

// Deleting a VM that still runs on another host keeps its disks, and the page says why.
func TestDeleteKeepsDisksWhileVMRunsOnDifferentHost(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	var host fleet.HostID
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM hosts WHERE name = 'host-1'").Scan(&host); err != nil {
		t.Fatal(err)
	}
	id := p.addVM(project, host, "held", fleet.Stopped, func(vm *fleet.VM) {
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "held-1.qcow2", SizeBytes: 20 << 30}}
	})
	p.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, true FROM hosts WHERE name = 'host-2'`, id)
	const why = "host-2 reports a guest with this UUID, running. That guest may write to the disks."
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(id) + "/delete"
	d := b.get(path).requireStatus(t, http.StatusOK)
	d.contains(t, `id="why-disks">The disks cannot be deleted now: `+why, `value="delete" disabled`, `value="keep" checked`)
	d.excludes(t, "data-confirm-name")
	b.post(path, url.Values{"disks": {"delete"}, "confirm": {"held"}}).requireStatus(t, http.StatusConflict).contains(t, "disks cannot be deleted now: "+why)
	b.post(path, url.Values{"disks": {"keep"}}).requireStatus(t, http.StatusSeeOther)
}
