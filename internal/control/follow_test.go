package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// twoHostFixture has a VM and two hosts: the hostFixture's own host, to which the VM is assigned, and another host.
type twoHostFixture struct {
	*hostFixture
	otherHost     *hostFixture
	vmID          fleet.VMID
	ownershipMark string
}

func newTwoHostFixture(t *testing.T) twoHostFixture {
	t.Helper()
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '')`)
	p := twoHostFixture{hostFixture: r, otherHost: &hostFixture{Control: r.Control, t: t, pool: r.pool, hub: r.hub, agent: r.addHost("h2")}, vmID: r.addVM("web")}
	p.otherHost.sendHello("two", "there")
	p.execSQL(`DELETE FROM jobs`)
	p.ownershipMark = queryValue[string](r, `SELECT mark FROM vm_marks`)
	p.reportFromOwnHost(fleet.Running)
	p.otherHost.reportState("nothing")
	return p
}

// vmReport returns the report of a host with a domain that has the VM's ID and ownership mark.
func (p twoHostFixture) vmReport(power fleet.Power) wire.VMReport {
	return wire.VMReport{ID: p.vmID, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: power, CPUs: 1}, Proof: wire.OwnershipProof(p.vmID, p.ownershipMark)}
}

func (p twoHostFixture) reportFromOwnHost(power fleet.Power) {
	p.t.Helper()
	p.reportState("own "+string(power), p.vmReport(power))
}

func (p twoHostFixture) reportFromOtherHost(power fleet.Power) {
	p.t.Helper()
	p.otherHost.reportState("there "+string(power), p.vmReport(power))
}

// runLocationsPass runs the pass ReassignMovedVMs and returns the VM.
func (p twoHostFixture) runLocationsPass() fleet.VMView {
	p.t.Helper()
	if err := p.ReassignMovedVMs(p.t.Context(), fleet.SystemActor); err != nil {
		p.t.Fatal(err)
	}
	vm, err := p.GetVM(p.t.Context(), chief, p.vmID)
	if err != nil {
		p.t.Fatal(err)
	}
	return vm
}

func (p twoHostFixture) wantOnOwnHost(when string, phase fleet.Phase) fleet.VMView {
	p.t.Helper()
	vm := p.runLocationsPass()
	if vm.HostID != p.agent.HostID || vm.Phase != phase || vm.RunsOnTwoHosts() {
		p.t.Fatalf("%s the VM is %s on %s, contested %t", when, vm.Phase, vm.HostName, vm.RunsOnTwoHosts())
	}
	return vm
}

func (p twoHostFixture) wantOnOtherHost(when string) fleet.VMView {
	p.t.Helper()
	vm := p.runLocationsPass()
	if vm.HostID != p.otherHost.agent.HostID || vm.Status.Power != fleet.Running || vm.RunsOnTwoHosts() || len(vm.Status.Faults) > 0 {
		p.t.Fatalf("%s the VM is %s on %s: %+v", when, vm.Phase, vm.HostName, vm)
	}
	return vm
}

func (p twoHostFixture) isListedUnmanaged(host *hostFixture) bool {
	return queryValue[bool](p.hostFixture, `SELECT EXISTS (SELECT 1 FROM found_vms WHERE id = $1 AND host_id = $2)`, p.vmID, host.agent.HostID)
}

func TestVMHostUpdatedAfterExternalMigration(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOtherHost(fleet.Paused)
	p.wantOnOwnHost("while the guest comes in", fleet.PhaseRunning)
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOtherHost(fleet.Running)
	p.wantOnOwnHost("while its own host has not spoken since", fleet.PhaseRunning)
	p.reportState("gone")
	if vm := p.wantOnOtherHost("once its own host does not have it"); vm.Phase != fleet.PhaseRunning || len(vm.Sightings) != 0 {
		t.Errorf("the VM is %s, with sightings %+v", vm.Phase, vm.Sightings)
	}
	if p.isListedUnmanaged(p.otherHost) || p.isListedUnmanaged(p.hostFixture) {
		t.Error("the VM is also listed as unmanaged")
	}
	if n := queryValue[int](p.hostFixture, `SELECT count(*) FROM audit WHERE action = 'vm.follow' AND detail LIKE 'h1 → h2:%'`); n != 1 {
		t.Errorf("%d audit lines", n)
	}
	// The VM's status now comes from the new host's reports. A report of the old host does not change the status.
	p.reportState("left", p.vmReport(fleet.Stopped))
	p.wantOnOtherHost("with its definition left behind")
	if !p.isListedUnmanaged(p.hostFixture) {
		t.Error("the definition on the old host is not listed as unmanaged")
	}
	p.otherHost.reportState("off", p.vmReport(fleet.Stopped))
	if vm := p.runLocationsPass(); vm.Phase != fleet.PhaseStopped {
		t.Fatalf("the new host reports off, the VM is %s", vm.Phase)
	}
	// The VM is assigned to the old host again as soon as that host reports the VM as running.
	p.reportFromOwnHost(fleet.Running)
	p.otherHost.reportState("off", p.vmReport(fleet.Stopped))
	if vm := p.runLocationsPass(); vm.HostID != p.agent.HostID || vm.Phase != fleet.PhaseRunning {
		t.Fatalf("after the return the VM is %s on %s", vm.Phase, vm.HostName)
	}
}

func TestVMHostUpdatedWhenDefinitionRemainsOnOldHost(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOtherHost(fleet.Paused)
	p.reportFromOwnHost(fleet.Stopped) // newer than the report from the start of the guest's migration
	p.reportFromOtherHost(fleet.Running)
	p.wantOnOtherHost("at the report that it runs")
}

// During a migration the target reports the VM before the migration's jobs have ended. Only these jobs change the VM's host,
// because they also change its disks.
func TestVMHostNotUpdatedDuringMigration(t *testing.T) { //nolint:tparallel // the fixture makes the subtests parallel
	t.Parallel()
	for _, kind := range []fleet.JobKind{fleet.VMMigrate, fleet.VMReceive} {
		t.Run(string(kind), func(t *testing.T) {
			p := newTwoHostFixture(t)
			p.queueVMJob(p.vmID, kind)
			p.reportFromOtherHost(fleet.Running)
			p.reportState("gone")
			p.wantOnOwnHost("while the target runs it", fleet.PhaseMissing)
			p.reportFromOwnHost(fleet.Running)
			p.reportFromOtherHost(fleet.Running)
			p.otherHost.reportState("again", p.vmReport(fleet.Running))
			p.wantOnOwnHost("while both hosts run it", fleet.PhaseRunning)
			p.execSQL(`UPDATE jobs SET state = 'failed', ended_at = now()`)
			p.reportState("gone again")
			p.wantOnOtherHost("after the end of the job")
		})
	}
}

// A migration's guest runs on one host at a time, but the hosts report at different times.
func TestTwoHostsAlarmDuringMigration(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queueVMJob(p.vmID, fleet.VMMigrate)
	p.queueVMJob(p.vmID, fleet.VMReset)
	p.execSQL(`UPDATE jobs SET epoch = 1, attempt = 1 WHERE kind = 'vm.migrate'`) // its agent has restarted
	reportBoth := func() {
		p.reportFromOtherHost(fleet.Running)
		p.reportFromOwnHost(fleet.Running)
		p.otherHost.reportState("again", p.vmReport(fleet.Running))
	}
	pass := func(time string) {
		p.execSQL(`UPDATE vm_sightings SET since = since - $1::interval`, time)
		p.execSQL(`UPDATE host_sessions SET last_look = last_look - $1::interval`, time)
	}
	reportBoth()
	pass("19 seconds")
	reportBoth()
	p.wantOnOwnHost("within two report intervals", fleet.PhaseRunning)
	pass("2 seconds")
	p.wantOnOwnHost("before the hosts have reported again", fleet.PhaseRunning)
	p.reportFromOwnHost(fleet.Running)
	p.wantOnOwnHost("before the target has reported again", fleet.PhaseRunning)
	p.otherHost.reportState("once more", p.vmReport(fleet.Running))
	if vm := p.runLocationsPass(); !vm.RunsOnTwoHosts() || vm.HostID != p.agent.HostID {
		t.Fatalf("after two report intervals the VM is on %s, with sightings %+v", vm.HostName, vm.Sightings)
	}
	got := queryValue[string](p.hostFixture, `SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind) FROM jobs`)
	if want := "vm.migrate queued, vm.reset cancelled"; got != want {
		t.Errorf("jobs: %s, want: %s", got, want)
	}
	p.reportFromOtherHost(fleet.Stopped)
	p.wantOnOwnHost("once the target has ended its guest", fleet.PhaseRunning)
}

func TestQueuedJobsMoveToNewHostOfVM(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queueVMJob(p.vmID, fleet.VMApply)
	p.queueVMJob(p.vmID, fleet.VMReset)
	p.execSQL(`INSERT INTO jobs (id, host_id, kind, subject, generation) VALUES ($1, $2, 'console.open', $3, 1)`,
		fleet.NewID[fleet.JobID](), p.agent.HostID, fleet.SubjectVM(p.vmID))
	claimed := p.claimJobs()
	slices.SortFunc(claimed, func(a, b wire.Work) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	if len(claimed) != 2 || claimed[1].Kind != fleet.VMApply || claimed[1].Mark != p.ownershipMark {
		t.Fatalf("claimed %+v", claimed)
	}
	p.queueVMJob(p.vmID, fleet.VMApply) // one running and one queued of the same kind
	p.queueVMJob(p.vmID, fleet.VMPause)
	p.reportFromOtherHost(fleet.Running)
	p.reportState("gone")
	p.wantOnOtherHost("after the migration")
	got := queryValue[string](p.hostFixture, `SELECT string_agg(kind || ' ' || state || ' ' || (SELECT name FROM hosts h WHERE h.id = j.host_id), ', ' ORDER BY kind, state) FROM jobs j`)
	const want = "console.open cancelled h1, vm.apply cancelled h1, vm.apply queued h2, vm.pause queued h2, vm.reset cancelled h1"
	if got != want {
		t.Errorf("jobs: %s\nwant: %s", got, want)
	}
	wantCode(t, p.finishJob(claimed[1], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}), fleet.Conflict)
	p.wantOnOtherHost("after the old host's late result")
	if w := p.otherHost.claimJobs(); len(w) != 1 || w[0].Kind != fleet.VMApply || w[0].VM == nil {
		t.Errorf("the new host is given %+v", w)
	}
}

func TestDeletionWithdrawnWhenVMRunsOnOtherHost(t *testing.T) {
	p := newTwoHostFixture(t)
	if _, err := p.DeleteVM(t.Context(), chief, p.vmID, true, "web"); err != nil {
		t.Fatal(err)
	}
	p.claimJobs()
	p.reportFromOtherHost(fleet.Running)
	p.reportState("gone")
	vm := p.runLocationsPass()
	if vm.HostID != p.otherHost.agent.HostID || vm.DeletedAt != nil {
		t.Fatalf("%+v", vm.Meta)
	}
	if state := queryValue[string](p.hostFixture, `SELECT state FROM jobs WHERE kind = 'vm.delete'`); state != "unknown" {
		t.Errorf("the deletion is %s", state)
	}
}

func TestVMHostNotUpdatedWhileAssignedHostOffline(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOtherHost(fleet.Running)
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.agent.HostID)
	vm := p.wantOnOwnHost("with its host silent", fleet.PhaseUnknown)
	if len(vm.Status.Faults) != 1 || vm.Status.Faults[0].Code != fleet.FaultElsewhere || !strings.Contains(vm.Status.Faults[0].Text, "h2") {
		t.Fatalf("faults %+v", vm.Status.Faults)
	}
	if _, err := p.ChooseVMHost(t.Context(), chief, p.vmID, p.otherHost.agent.HostID); err != nil {
		t.Fatal(err)
	}
	p.wantOnOtherHost("when a person says so")
	p.reportFromOwnHost(fleet.Running) // the VM's former host is online again and still runs the VM
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOwnHost(fleet.Running)
	if vm := p.runLocationsPass(); !vm.RunsOnTwoHosts() || vm.HostID != p.otherHost.agent.HostID {
		t.Fatalf("no alarm for a VM that runs twice: %+v", vm)
	}
}

// reportRunningOnBothHosts reports the VM as running on both hosts and runs the locations pass.
func (p twoHostFixture) reportRunningOnBothHosts() fleet.VMView {
	p.t.Helper()
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOwnHost(fleet.Running)
	if vm := p.runLocationsPass(); vm.RunsOnTwoHosts() {
		p.t.Fatal("an alarm before the other host has reported again")
	}
	p.reportFromOtherHost(fleet.Running)
	vm := p.runLocationsPass()
	if !vm.RunsOnTwoHosts() || !vm.Attention || vm.HostID != p.agent.HostID || vm.Status.Faults[0].Code != fleet.FaultTwoPlaces {
		p.t.Fatalf("two hosts run it: %+v", vm)
	}
	return vm
}

func TestVMRunningOnTwoHostsRaisesAlarm(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queueVMJob(p.vmID, fleet.VMStop)
	vm := p.reportRunningOnBothHosts()
	if !p.vmNeedsAttention(p.vmID) {
		t.Error("it does not need attention")
	}
	if n := queryValue[int](p.hostFixture, `SELECT count(*) FROM jobs WHERE state = 'cancelled'`); n != 1 {
		t.Error("a queued job is still carried out")
	}
	for _, act := range fleet.VMActions {
		if ok, why := vm.Allows(act); ok != (act == fleet.ActConsole) {
			t.Errorf("%s: %t %s", act, ok, why)
		}
	}
	if _, err := p.RequestPowerAction(t.Context(), chief, p.vmID, fleet.ActStop); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("forced off: %v", err)
	}
	if _, err := p.DeleteVM(t.Context(), chief, p.vmID, false, ""); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("deleted: %v", err)
	}
	p.execSQL(`UPDATE vms SET generation = generation + 1`)
	if err := p.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](p.hostFixture, `SELECT count(*) FROM jobs WHERE state = 'queued'`); n != 0 {
		t.Error("a job is queued in spite of the alarm")
	}
	if _, err := p.ChooseVMHost(t.Context(), chief, p.vmID, p.agent.HostID); err != nil {
		t.Fatal(err)
	}
	vm = p.wantOnOwnHost("after the decision", fleet.PhaseUpdating)
	if ok, why := vm.Allows(fleet.ActStop); !ok {
		t.Errorf("after the decision it cannot be forced off: %s", why)
	}
	// The user's choice of the host stays in effect: the VM is not assigned to the other host, and does not start while
	// that host runs the VM's domain.
	p.execSQL(`UPDATE vms SET generation = 1`)
	p.reportFromOwnHost(fleet.Stopped)
	vm = p.wantOnOwnHost("after it was stopped where it is", fleet.PhaseStopped)
	if ok, why := vm.Allows(fleet.ActStart); ok || !strings.Contains(why, "h2") {
		t.Errorf("started: %t %s", ok, why)
	}
	p.reportFromOtherHost(fleet.Stopped)
	if ok, why := p.runLocationsPass().Allows(fleet.ActStart); !ok {
		t.Errorf("the other host is done, but: %s", why)
	}
	if n := queryValue[int](p.hostFixture, `SELECT count(*) FROM audit WHERE action IN ('vm.alarm', 'vm.place')`); n != 2 {
		t.Errorf("%d audit lines", n)
	}
}

func TestChooseVMHostAssignsVMToChosenHost(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportRunningOnBothHosts()
	vm, err := p.ChooseVMHost(t.Context(), chief, p.vmID, p.otherHost.agent.HostID)
	if err != nil || vm.HostID != p.otherHost.agent.HostID || vm.Phase != fleet.PhaseRunning || vm.RunsOnTwoHosts() {
		t.Fatalf("%+v %v", vm, err)
	}
	p.reportFromOwnHost(fleet.Running)
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOwnHost(fleet.Running)
	if vm := p.runLocationsPass(); vm.RunsOnTwoHosts() || vm.HostID != p.otherHost.agent.HostID || !p.isListedUnmanaged(p.hostFixture) {
		t.Fatalf("the decision was not stored: %+v", vm)
	}
	if _, err := p.ChooseVMHost(t.Context(), chief, p.vmID, fleet.NewID[fleet.HostID]()); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a host without the VM: %v", err)
	}
}

func TestTwoHostsAlarmEndsWhenOneDomainStops(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportRunningOnBothHosts()
	p.reportFromOtherHost(fleet.Stopped)
	p.wantOnOwnHost("when the other host stops it", fleet.PhaseRunning)
	p.reportRunningOnBothHosts()
	p.reportState("gone")
	p.wantOnOtherHost("when its own host stops it")
}

func TestVMHostNotUpdatedWhileStartJobRuns(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOwnHost(fleet.Stopped)
	if _, err := p.RequestPowerAction(t.Context(), chief, p.vmID, fleet.ActStart); err != nil {
		t.Fatal(err)
	}
	w := p.claimJobs()
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOwnHost(fleet.Stopped)
	if vm := p.runLocationsPass(); vm.HostID != p.agent.HostID {
		t.Fatal("the VM moved although its own host is starting it")
	}
	if err := p.finishJob(w[0], wire.Finish{Outcome: wire.Failed, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	p.reportFromOwnHost(fleet.Stopped)
	p.wantOnOtherHost("once its start has failed")
}

func TestReportsOfOtherHostsVMsWrittenOnlyOnChange(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOtherHost(fleet.Paused)
	const versions = `SELECT string_agg(x, ' ') FROM (SELECT xmin::text || ctid::text AS x FROM vm_sightings UNION ALL SELECT xmin::text || ctid::text FROM vms
		UNION ALL SELECT xmin::text || ctid::text FROM found_vms) v`
	before := queryValue[string](p.hostFixture, versions)
	p.reportFromOtherHost(fleet.Paused)
	p.reportFromOwnHost(fleet.Running)
	p.runLocationsPass()
	if now := queryValue[string](p.hostFixture, versions); now != before {
		t.Fatal("reports in which nothing changed wrote new row versions")
	}
	p.otherHost.reportState("nothing")
	if n := queryValue[int](p.hostFixture, `SELECT (SELECT count(*) FROM vm_sightings) + (SELECT count(*) FROM vms WHERE elsewhere IS NOT NULL)`); n != 0 {
		t.Fatal("the sighting of a removed domain remains")
	}
}

func TestVMHostUpdatedOnlyAfterNewReportFromAssignedHost(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOwnHost(fleet.Stopped)
	p.reportFromOtherHost(fleet.Running)
	p.wantOnOwnHost("before its own host has looked again", fleet.PhaseStopped)
	if _, err := p.Report(t.Context(), p.agent, wire.Report{Seq: p.nextSeq(), Digest: "own stopped", StateAgeMs: 1}); err != nil {
		t.Fatal(err)
	}
	p.wantOnOtherHost("after its heartbeat")
}

func TestReportOfOfflineHostDoesNotMoveVM(t *testing.T) {
	p := newTwoHostFixture(t)
	p.reportFromOtherHost(fleet.Running)
	p.reportFromOwnHost(fleet.Stopped)
	p.execSQL(`UPDATE vm_sightings SET began = now() - interval '1 minute'`)
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.agent.HostID)
	p.wantOnOwnHost("with its host silent", fleet.PhaseUnknown)
}
