package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportingAgent is a simulated agent of a host, with a session, that reports directly to control.
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

// reportVM sends a report with this VM only, in the given power state and with the VM's ownership mark in the
// domain's metadata.
func (s *reportingAgent) reportVM(id fleet.VMID, power fleet.Power) {
	s.t.Helper()
	var mark string
	if err := s.pool.QueryRow(s.t.Context(), "SELECT mark FROM vm_marks WHERE vm_id = $1", id).Scan(&mark); err != nil {
		s.t.Fatal(err)
	}
	s.seq++
	_, err := s.control.Report(s.t.Context(), s.actor, wire.Report{Seq: s.seq, Digest: string(power), State: &wire.State{
		Host: fleet.HostStatus{Connected: true},
		VMs:  []wire.VMReport{{ID: id, Name: "web-01", Generation: 1, Status: fleet.VMStatus{Power: power, CPUs: 2, MemoryMiB: 4096}, Proof: wire.Proof(id, mark)}},
	}})
	if err == nil {
		err = s.control.SettlePlaces(s.t.Context(), fleet.SystemActor)
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

	b := p.signedIn("mara", fleet.RoleAdmin)
	a := b.get(page).is(t, http.StatusOK)
	a.has(t, "Runs on two hosts", "host-1 and host-2 both run the VM", "Hosts with this VM", "Keep on host-1", "Keep on host-2", "The VM runs on two hosts at once. No action is possible until", "Two guests that write to the same disks destroy them. No action is possible until")
	a.lacks(t, `value="shutdown"`, `value="stop"`, `value="reset"`)
	b.get("/vms?tab=attention").is(t, http.StatusOK).has(t, ">web-01<", "Runs on two hosts")
	b.get("/").is(t, http.StatusOK).has(t, ">web-01</a>", "host-1 and host-2 both run the VM")
	b.post(page+"/actions", url.Values{"action": {"stop"}}).is(t, http.StatusConflict).has(t, "runs on two hosts")

	admin := p.apiClient("ann", fleet.RoleAdmin, nil)
	admin.call("GET", api, "").is(t, http.StatusOK).has(t, `"code":"twoPlaces"`, `"hostName":"host-2"`, `"alarm":true`)
	admin.call("POST", api+"/actions", `{"action":"stop"}`).is(t, http.StatusConflict).has(t, "runs on two hosts")
	admin.call("PATCH", api, `{"spec":{"cpus":4}}`).is(t, http.StatusConflict)
	admin.call("DELETE", api, "").is(t, http.StatusConflict)
	bulk := b.post("/vms/bulk", url.Values{"action": {"stop"}, "vm": {string(id)}})
	if n := p.count("jobs WHERE state = 'queued'"); n != 0 {
		t.Errorf("%d tasks were queued; the bulk action answered %d", n, bulk.status)
	}

	tenant := p.tenant("mia", project)
	a = tenant.get(page).is(t, http.StatusOK)
	a.has(t, "Runs on two hosts", "The VM runs in two places at once.")
	a.lacks(t, "host-1", "host-2", "Hosts with this VM", "Keep on")
	tenant.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).is(t, http.StatusForbidden)
	viewer := p.signedIn("vic", fleet.RoleViewer)
	viewer.get(page).is(t, http.StatusOK).has(t, "Hosts with this VM", "Only users who may change hosts can set which host a VM is on.")
	viewer.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).is(t, http.StatusForbidden)

	b.post(page+"/place/nowhere", url.Values{}).is(t, http.StatusConflict)
	b.post(page+"/place/"+string(h2.actor.HostID), url.Values{}).is(t, http.StatusSeeOther)
	a = b.get(page).is(t, http.StatusOK)
	a.has(t, ">host-2</a>", "Hosts with this VM", "not this VM, by a user", `value="shutdown"`)
	a.lacks(t, "Runs on two hosts")
	b.get(page+"?tab=events").is(t, http.StatusOK).has(t, "vm.alarm", "vm.place", "host-1 → host-2")
	a = tenant.get(page+"?tab=events").is(t, http.StatusOK)
	a.has(t, "vm.place")
	a.lacks(t, "host-1", "host-2")
	admin.call("POST", api+"/place", `{"hostId":"`+string(h1.actor.HostID)+`"}`).is(t, http.StatusOK).has(t, `"hostName":"host-1"`)
}

func TestStartRefusedWhileVMRunsElsewhere(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	id := vms["web-02"]
	p.exec(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, true FROM hosts WHERE name = 'host-1'`, id)
	b := p.signedIn("mara", fleet.RoleAdmin)
	a := b.get("/vms/"+string(id)).is(t, http.StatusOK)
	a.has(t, "host-1 reports a guest with this UUID")
	a.lacks(t, `value="start"`)
	b.post("/vms/"+string(id)+"/actions", url.Values{"action": {"start"}}).is(t, http.StatusConflict).has(t, "host-1 reports a guest with this UUID, running.")
}

// Any host can report a domain with any UUID. A domain without the VM's ownership mark in its metadata is shown, but
// does not block actions while the VM's own host is online.
func TestStartAllowedWhenAnotherHostOnlyNamesTheUUID(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	id := vms["web-02"]
	p.exec(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, false FROM hosts WHERE name = 'host-1'`, id)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/vms/"+string(id)).is(t, http.StatusOK).has(t, "metadata", "This domain does not carry the mark of this", `value="start"`)
	b.post("/vms/"+string(id)+"/actions", url.Values{"action": {"start"}}).is(t, http.StatusSeeOther)
}

// Deleting a VM that still runs on another host keeps its disks, and the page says why.
func TestDeleteKeepsDisksOfVMRunningElsewhere(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	var host fleet.HostID
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM hosts WHERE name = 'host-1'").Scan(&host); err != nil {
		t.Fatal(err)
	}
	id := p.addVM(project, host, "held", fleet.Stopped, func(vm *fleet.VM) {
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "held-1.qcow2", SizeBytes: 20 << 30}}
	})
	p.exec(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT $1, id, 'running', 1, true FROM hosts WHERE name = 'host-2'`, id)
	const why = "host-2 reports a guest with this UUID, running. That guest may write to the disks."
	b := p.signedIn("mara", fleet.RoleAdmin)
	path := "/vms/" + string(id) + "/delete"
	d := b.get(path).is(t, http.StatusOK)
	d.has(t, `id="why-disks">The disks cannot be deleted now: `+why, `value="delete" disabled`, `value="keep" checked`)
	d.lacks(t, "data-confirm-name")
	b.post(path, url.Values{"disks": {"delete"}, "confirm": {"held"}}).is(t, http.StatusConflict).has(t, "disks cannot be deleted now: "+why)
	b.post(path, url.Values{"disks": {"keep"}}).is(t, http.StatusSeeOther)
}
