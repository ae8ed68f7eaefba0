package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// twoHostFixture has two hosts: the rig's own host, which has the VM, and another host.
type twoHostFixture struct {
	*rig
	other *rig
	id    fleet.VMID
	mark  string
}

func newTwoHostFixture(t *testing.T) twoHostFixture {
	t.Helper()
	r := newRig(t)
	r.exec(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '')`)
	p := twoHostFixture{rig: r, other: &rig{Control: r.Control, t: t, pool: r.pool, hub: r.hub, agent: r.addHost("h2")}, id: r.addVM("web")}
	p.other.hello("two", "there")
	p.exec(`DELETE FROM jobs`)
	p.mark = one[string](r, `SELECT mark FROM vm_marks`)
	p.reportOwn(fleet.Running)
	p.other.report("nothing")
	return p
}

// domain returns the report of a host on which a domain has the VM's ID and ownership mark.
func (p twoHostFixture) domain(power fleet.Power) wire.VMReport {
	return wire.VMReport{ID: p.id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: power, CPUs: 1}, Proof: wire.Proof(p.id, p.mark)}
}

func (p twoHostFixture) reportOwn(power fleet.Power) {
	p.t.Helper()
	p.report("own "+string(power), p.domain(power))
}

func (p twoHostFixture) reportOther(power fleet.Power) {
	p.t.Helper()
	p.other.report("there "+string(power), p.domain(power))
}

// runPlacesPass runs the pass SettlePlaces and returns the VM.
func (p twoHostFixture) runPlacesPass() fleet.VMView {
	p.t.Helper()
	if err := p.SettlePlaces(p.t.Context(), fleet.SystemActor); err != nil {
		p.t.Fatal(err)
	}
	vm, err := p.GetVM(p.t.Context(), chief, p.id)
	if err != nil {
		p.t.Fatal(err)
	}
	return vm
}

func (p twoHostFixture) wantOnOwn(when string, phase fleet.Phase) fleet.VMView {
	p.t.Helper()
	vm := p.runPlacesPass()
	if vm.HostID != p.agent.HostID || vm.Phase != phase || vm.RunsOnTwoHosts() {
		p.t.Fatalf("%s the VM is %s on %s, contested %t", when, vm.Phase, vm.HostName, vm.RunsOnTwoHosts())
	}
	return vm
}

func (p twoHostFixture) wantOnOther(when string) fleet.VMView {
	p.t.Helper()
	vm := p.runPlacesPass()
	if vm.HostID != p.other.agent.HostID || vm.Status.Power != fleet.Running || vm.RunsOnTwoHosts() || len(vm.Status.Faults) > 0 {
		p.t.Fatalf("%s the VM is %s on %s: %+v", when, vm.Phase, vm.HostName, vm)
	}
	return vm
}

func (p twoHostFixture) listedUnmanaged(host *rig) bool {
	return one[bool](p.rig, `SELECT EXISTS (SELECT 1 FROM found_vms WHERE id = $1 AND host_id = $2)`, p.id, host.agent.HostID)
}

func TestVMHostUpdatedAfterExternalMigration(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOther(fleet.Paused)
	p.wantOnOwn("while the guest comes in", fleet.PhaseRunning)
	p.reportOther(fleet.Running)
	p.reportOther(fleet.Running)
	p.wantOnOwn("while its own host has not spoken since", fleet.PhaseRunning)
	p.report("gone")
	if vm := p.wantOnOther("once its own host does not have it"); vm.Phase != fleet.PhaseRunning || len(vm.Sightings) != 0 {
		t.Errorf("the VM is %s, with sightings %+v", vm.Phase, vm.Sightings)
	}
	if p.listedUnmanaged(p.other) || p.listedUnmanaged(p.rig) {
		t.Error("the VM is also listed as unmanaged")
	}
	if n := one[int](p.rig, `SELECT count(*) FROM audit WHERE action = 'vm.follow' AND detail LIKE 'h1 → h2:%'`); n != 1 {
		t.Errorf("%d audit lines", n)
	}
	// The new host's reports count from now on; the old host's reports no longer count.
	p.report("left", p.domain(fleet.Stopped))
	p.wantOnOther("with its definition left behind")
	if !p.listedUnmanaged(p.rig) {
		t.Error("the definition on the old host is not listed as unmanaged")
	}
	p.other.report("off", p.domain(fleet.Stopped))
	if vm := p.runPlacesPass(); vm.Phase != fleet.PhaseStopped {
		t.Fatalf("the new host reports off, the VM is %s", vm.Phase)
	}
	// A single report moves the VM back: the old host runs the VM again.
	p.reportOwn(fleet.Running)
	p.other.report("off", p.domain(fleet.Stopped))
	if vm := p.runPlacesPass(); vm.HostID != p.agent.HostID || vm.Phase != fleet.PhaseRunning {
		t.Fatalf("after the return the VM is %s on %s", vm.Phase, vm.HostName)
	}
}

func TestVMHostUpdatedWhenOldDefinitionRemains(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOther(fleet.Paused)
	p.reportOwn(fleet.Stopped) // newer than the report from the start of the guest's migration
	p.reportOther(fleet.Running)
	p.wantOnOther("at the report that it runs")
}

func TestQueuedJobsMoveToNewHostOfVM(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queue(p.id, fleet.VMApply)
	p.queue(p.id, fleet.VMReset)
	p.exec(`INSERT INTO jobs (id, host_id, kind, subject, generation) VALUES ($1, $2, 'console.open', $3, 1)`,
		fleet.NewID[fleet.JobID](), p.agent.HostID, fleet.SubjectVM(p.id))
	claimed := p.claim()
	slices.SortFunc(claimed, func(a, b wire.Work) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	if len(claimed) != 2 || claimed[1].Kind != fleet.VMApply || claimed[1].Mark != p.mark {
		t.Fatalf("claimed %+v", claimed)
	}
	p.queue(p.id, fleet.VMApply) // one running and one queued of the same kind
	p.queue(p.id, fleet.VMPause)
	p.reportOther(fleet.Running)
	p.report("gone")
	p.wantOnOther("after the migration")
	got := one[string](p.rig, `SELECT string_agg(kind || ' ' || state || ' ' || (SELECT name FROM hosts h WHERE h.id = j.host_id), ', ' ORDER BY kind, state) FROM jobs j`)
	const want = "console.open cancelled h1, vm.apply cancelled h1, vm.apply queued h2, vm.pause queued h2, vm.reset cancelled h1"
	if got != want {
		t.Errorf("jobs: %s\nwant: %s", got, want)
	}
	wantCode(t, p.finish(claimed[1], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}), fleet.Conflict)
	p.wantOnOther("after the old host's late result")
	if w := p.other.claim(); len(w) != 1 || w[0].Kind != fleet.VMApply || w[0].VM == nil {
		t.Errorf("the new host is given %+v", w)
	}
}

func TestDeletionWithdrawnWhenVMRunsOnOtherHost(t *testing.T) {
	p := newTwoHostFixture(t)
	if _, err := p.DeleteVM(t.Context(), chief, p.id, true, "web"); err != nil {
		t.Fatal(err)
	}
	p.claim()
	p.reportOther(fleet.Running)
	p.report("gone")
	vm := p.runPlacesPass()
	if vm.HostID != p.other.agent.HostID || vm.DeletedAt != nil {
		t.Fatalf("%+v", vm.Meta)
	}
	if state := one[string](p.rig, `SELECT state FROM jobs WHERE kind = 'vm.delete'`); state != "unknown" {
		t.Errorf("the deletion is %s", state)
	}
}

func TestVMHostNotUpdatedWhileOwnHostOffline(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOther(fleet.Running)
	p.exec(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.agent.HostID)
	vm := p.wantOnOwn("with its host silent", fleet.PhaseUnknown)
	if len(vm.Status.Faults) != 1 || vm.Status.Faults[0].Code != fleet.FaultElsewhere || !strings.Contains(vm.Status.Faults[0].Text, "h2") {
		t.Fatalf("faults %+v", vm.Status.Faults)
	}
	if _, err := p.PlaceVM(t.Context(), chief, p.id, p.other.agent.HostID); err != nil {
		t.Fatal(err)
	}
	p.wantOnOther("when a person says so")
	p.reportOwn(fleet.Running) // the VM's former host is online again and still runs the VM
	p.reportOther(fleet.Running)
	p.reportOwn(fleet.Running)
	if vm := p.runPlacesPass(); !vm.RunsOnTwoHosts() || vm.HostID != p.other.agent.HostID {
		t.Fatalf("no alarm for a VM that runs twice: %+v", vm)
	}
}

// runOnBothHosts makes both hosts run the VM.
func (p twoHostFixture) runOnBothHosts() fleet.VMView {
	p.t.Helper()
	p.reportOther(fleet.Running)
	p.reportOwn(fleet.Running)
	if vm := p.runPlacesPass(); vm.RunsOnTwoHosts() {
		p.t.Fatal("an alarm before the other host has reported again")
	}
	p.reportOther(fleet.Running)
	vm := p.runPlacesPass()
	if !vm.RunsOnTwoHosts() || !vm.Attention || vm.HostID != p.agent.HostID || vm.Status.Faults[0].Code != fleet.FaultTwoPlaces {
		p.t.Fatalf("two hosts run it: %+v", vm)
	}
	return vm
}

func TestVMRunningOnTwoHostsRaisesAlarm(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queue(p.id, fleet.VMStop)
	vm := p.runOnBothHosts()
	if !p.needsAttention(p.id) {
		t.Error("it does not need attention")
	}
	if n := one[int](p.rig, `SELECT count(*) FROM jobs WHERE state = 'cancelled'`); n != 1 {
		t.Error("a queued job is still carried out")
	}
	for _, act := range fleet.VMActions {
		if ok, why := vm.Allows(act); ok != (act == fleet.ActConsole) {
			t.Errorf("%s: %t %s", act, ok, why)
		}
	}
	if _, err := p.ActVM(t.Context(), chief, p.id, fleet.ActStop); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("forced off: %v", err)
	}
	if _, err := p.DeleteVM(t.Context(), chief, p.id, false, ""); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("deleted: %v", err)
	}
	p.exec(`UPDATE vms SET generation = generation + 1`)
	if err := p.QueueDrifted(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := one[int](p.rig, `SELECT count(*) FROM jobs WHERE state = 'queued'`); n != 0 {
		t.Error("a job is queued in spite of the alarm")
	}
	if _, err := p.PlaceVM(t.Context(), chief, p.id, p.agent.HostID); err != nil {
		t.Fatal(err)
	}
	vm = p.wantOnOwn("after the decision", fleet.PhaseUpdating)
	if ok, why := vm.Allows(fleet.ActStop); !ok {
		t.Errorf("after the decision it cannot be forced off: %s", why)
	}
	// The user's choice of the host stays in effect: the VM is not assigned to the other host, and does not start while
	// that host runs the VM's domain.
	p.exec(`UPDATE vms SET generation = 1`)
	p.reportOwn(fleet.Stopped)
	vm = p.wantOnOwn("after it was stopped where it is", fleet.PhaseStopped)
	if ok, why := vm.Allows(fleet.ActStart); ok || !strings.Contains(why, "h2") {
		t.Errorf("started: %t %s", ok, why)
	}
	p.reportOther(fleet.Stopped)
	if ok, why := p.runPlacesPass().Allows(fleet.ActStart); !ok {
		t.Errorf("the other host is done, but: %s", why)
	}
	if n := one[int](p.rig, `SELECT count(*) FROM audit WHERE action IN ('vm.alarm', 'vm.place')`); n != 2 {
		t.Errorf("%d audit lines", n)
	}
}

func TestPlaceVMMovesVMToChosenHost(t *testing.T) {
	p := newTwoHostFixture(t)
	p.runOnBothHosts()
	vm, err := p.PlaceVM(t.Context(), chief, p.id, p.other.agent.HostID)
	if err != nil || vm.HostID != p.other.agent.HostID || vm.Phase != fleet.PhaseRunning || vm.RunsOnTwoHosts() {
		t.Fatalf("%+v %v", vm, err)
	}
	p.reportOwn(fleet.Running)
	p.reportOther(fleet.Running)
	p.reportOwn(fleet.Running)
	if vm := p.runPlacesPass(); vm.RunsOnTwoHosts() || vm.HostID != p.other.agent.HostID || !p.listedUnmanaged(p.rig) {
		t.Fatalf("the decision was not stored: %+v", vm)
	}
	if _, err := p.PlaceVM(t.Context(), chief, p.id, fleet.NewID[fleet.HostID]()); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a host without the VM: %v", err)
	}
}

func TestTwoHostsAlarmEndsWhenOneDomainStops(t *testing.T) {
	p := newTwoHostFixture(t)
	p.runOnBothHosts()
	p.reportOther(fleet.Stopped)
	p.wantOnOwn("when the other host stops it", fleet.PhaseRunning)
	p.runOnBothHosts()
	p.report("gone")
	p.wantOnOther("when its own host stops it")
}

func TestVMHostNotUpdatedWhileStartJobRuns(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOwn(fleet.Stopped)
	if _, err := p.ActVM(t.Context(), chief, p.id, fleet.ActStart); err != nil {
		t.Fatal(err)
	}
	w := p.claim()
	p.reportOther(fleet.Running)
	p.reportOwn(fleet.Stopped)
	if vm := p.runPlacesPass(); vm.HostID != p.agent.HostID {
		t.Fatal("the VM moved although its own host is starting it")
	}
	if err := p.finish(w[0], wire.Finish{Outcome: wire.Failed, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	p.reportOwn(fleet.Stopped)
	p.wantOnOther("once its start has failed")
}

func TestReportsOfOtherHostsVMsWrittenOnlyOnChange(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOther(fleet.Paused)
	const versions = `SELECT string_agg(x, ' ') FROM (SELECT xmin::text || ctid::text AS x FROM vm_sightings UNION ALL SELECT xmin::text || ctid::text FROM vms
		UNION ALL SELECT xmin::text || ctid::text FROM found_vms) v`
	before := one[string](p.rig, versions)
	p.reportOther(fleet.Paused)
	p.reportOwn(fleet.Running)
	p.runPlacesPass()
	if now := one[string](p.rig, versions); now != before {
		t.Fatal("reports in which nothing changed wrote new row versions")
	}
	p.other.report("nothing")
	if n := one[int](p.rig, `SELECT (SELECT count(*) FROM vm_sightings) + (SELECT count(*) FROM vms WHERE elsewhere IS NOT NULL)`); n != 0 {
		t.Fatal("the sighting of a removed domain remains")
	}
}

func TestVMHostUpdatedOnlyAfterNewerReportOfOwnHost(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOwn(fleet.Stopped)
	p.reportOther(fleet.Running)
	p.wantOnOwn("before its own host has looked again", fleet.PhaseStopped)
	if _, err := p.Report(t.Context(), p.agent, wire.Report{Seq: p.next(), Digest: "own stopped", StateAgeMs: 1}); err != nil {
		t.Fatal(err)
	}
	p.wantOnOther("after its heartbeat")
}

func TestReportOfOfflineHostDoesNotMoveVM(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportOther(fleet.Running)
	p.reportOwn(fleet.Stopped)
	p.exec(`UPDATE vm_sightings SET began = now() - interval '1 minute'`)
	p.exec(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.agent.HostID)
	p.wantOnOwn("with its host silent", fleet.PhaseUnknown)
}
