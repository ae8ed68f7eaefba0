package control_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

type decisions = map[fleet.VMID]fleet.MaintenanceDecision

// maintenanceFixture is a libraryFixture with VMs on h1: web runs with a disk in the shared pool, db runs with a
// disk that cannot be copied, old is off, and legacy is a running discovered VM.
type maintenanceFixture struct {
	*libraryFixture
	web, db, old fleet.VMView
	legacy       fleet.VMID
	claimed      map[fleet.HostID][]wire.Work
}

func newMaintenanceFixture(t *testing.T) *maintenanceFixture {
	s := &maintenanceFixture{libraryFixture: newLibraryFixture(t), claimed: map[fleet.HostID][]wire.Work{}}
	s.web, s.db = s.migratableVM("web", s.nfs), s.migratableVM("db", s.local)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,overlay}', 'true') WHERE id = $1`, s.db.ID)
	s.db = s.getVM(s.db.ID)
	s.old = s.migratableVM("old", s.nfs)
	s.reportPower(s.old.ID, fleet.Stopped)
	s.old = s.getVM(s.old.ID)
	s.legacy = s.addDiscoveredVM(`{"power":"running","cpus":1,"memoryMiB":128}`)
	return s
}

func (s *maintenanceFixture) enter(d decisions) fleet.Task {
	s.t.Helper()
	task, err := s.EnterMaintenance(s.t.Context(), chief, s.h1, control.EnterMaintenance{Decisions: d})
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

// runPasses runs the passes that start children and settle maintenance.
func (s *maintenanceFixture) runPasses() {
	s.t.Helper()
	s.markOnline()
	if err := errors.Join(s.BeginTasks(s.t.Context(), fleet.SystemActor), s.SettleMaintenance(s.t.Context(), fleet.SystemActor)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *maintenanceFixture) getHost(id fleet.HostID) fleet.HostView {
	s.t.Helper()
	s.markOnline()
	h, err := s.GetHost(s.t.Context(), chief, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *maintenanceFixture) wantLifecycle(want fleet.HostLifecycle) {
	s.t.Helper()
	if got := s.getHost(s.h1).Lifecycle; got != want {
		s.t.Errorf("h1 is %s, want %s", got, want)
	}
}

// finishMigration ends the VM's live migration as both agents do.
func (s *maintenanceFixture) finishMigration(id fleet.VMID, from, to fleet.HostID) {
	s.t.Helper()
	source, target := s.take(from, fleet.VMMigrate, id), s.take(to, fleet.VMReceive, id)
	s.finishJobWith(to, target, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	s.finishJobWith(from, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	s.execSQL(`UPDATE jobs SET state = 'done', ended_at = now() WHERE subject = $1 AND kind = 'vm.apply' AND state = 'queued'`, fleet.SubjectVM(id))
	s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, id)
}

func (s *maintenanceFixture) finishShutdown(id fleet.VMID, host fleet.HostID) {
	s.t.Helper()
	w := s.take(host, fleet.VMShutdown, id)
	s.finishJobWith(host, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 256}})
}

// take claims the host's jobs and returns the VM's job of the kind.
func (s *maintenanceFixture) take(host fleet.HostID, kind fleet.JobKind, id fleet.VMID) wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), s.agents[host], wire.ClaimRequest{Max: 16}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.claimed[host] = append(s.claimed[host], claim.Jobs...)
	i := slices.IndexFunc(s.claimed[host], func(w wire.Work) bool { return w.Kind == kind && w.Subject == fleet.SubjectVM(id) })
	if i < 0 {
		s.t.Fatalf("the host has no job %s of the VM: %+v", kind, s.claimed[host])
	}
	w := s.claimed[host][i]
	s.claimed[host] = slices.Delete(s.claimed[host], i, i+1)
	return w
}

// goOffline ends the validity of the host's reports.
func (s *maintenanceFixture) goOffline(id fleet.HostID) {
	s.t.Helper()
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, id)
}

func TestMaintenancePlanListsEveryVMWithChoices(t *testing.T) {
	s := newMaintenanceFixture(t)
	plan, err := s.PlanMaintenance(t.Context(), chief, s.h1, false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, vm := range plan.VMs {
		parts := []string{vm.Name}
		for _, c := range vm.Choices {
			if c.Allowed {
				parts = append(parts, string(c.Do)+string(c.Mode)+c.HostName)
			}
		}
		line := strings.Join(parts, " ")
		if vm.Proposal != nil {
			line += ": " + string(vm.Proposal.Do)
		} else {
			line += ": " + vm.Reason
		}
		got = append(got, line)
	}
	want := []string{
		"db shutdown leave: Disk 1 is backed by an image in its pool, which is not transferred. Move the disk to a pool that both hosts share.",
		"old migratecoldh2 leave: leave", "web migrateliveh2 shutdown leave: migrate",
		"legacy shutdown leave: Quantix does not manage it, so it cannot be migrated.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the plan is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMaintenancePlanFitsOnOtherHosts(t *testing.T) {
	s := newMaintenanceFixture(t)
	api := s.migratableVM("api", s.nfs)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{memoryMiB}', (SELECT to_jsonb(h.memory_bytes / 3 * 2 >> 20) FROM hosts h WHERE h.id = $1)) WHERE id = ANY ($2)`, s.h2, []fleet.VMID{s.web.ID, api.ID})
	s.execSQL(`DELETE FROM found_vms`)
	leave := decisions{s.db.ID: {Do: fleet.MaintenanceLeave}}
	plan, err := s.PlanMaintenance(t.Context(), chief, s.h1, false)
	if err != nil {
		t.Fatal(err)
	}
	proposed := map[string]*fleet.MaintenanceDecision{}
	for _, vm := range plan.VMs {
		proposed[vm.Name] = vm.Proposal
		if vm.Name == "web" && (!vm.LacksRoom || !strings.Contains(vm.Reason, "After the other VMs, h2 has")) {
			t.Errorf("the plan for web is %+v", vm)
		}
	}
	if proposed["api"] == nil || proposed["api"].HostID != s.h2 || proposed["web"] != nil {
		t.Errorf("the proposals are %v", proposed)
	}
	leave[s.web.ID] = fleet.MaintenanceDecision{Do: fleet.MaintenanceMigrate, HostID: s.h2}
	s.wantRefused("two VMs that do not fit together", fleet.Invalid, "After the other VMs, h2 has", func() error {
		_, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{Decisions: leave})
		return err
	})
	delete(leave, s.web.ID)
	task, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{Decisions: leave, Overcommit: true})
	if err != nil || task.Steps.Queued != 2 {
		t.Fatalf("with overcommit the task is %+v, %v", task.Steps, err)
	}
	s.runPasses()
	s.take(s.h1, fleet.VMMigrate, s.web.ID)
	s.take(s.h1, fleet.VMMigrate, api.ID)
	if detail := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT detail FROM audit WHERE action = 'host.enterMaintenance'`); !strings.Contains(detail, "overcommit chosen") {
		t.Errorf("the audit says %q", detail)
	}
}

func TestIncomingVMCountsOnce(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`DELETE FROM found_vms`)
	s.migrateLive(s.web)
	before := s.getHost(s.h2)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'web', '{"power":"running","cpus":1,"memoryMiB":256}')`, s.h2, s.web.ID)
	if got := s.getHost(s.h2); got.DiscoveredVMs != 0 || got.UsedMiB() != before.UsedMiB() {
		t.Errorf("with the incoming domain h2 has %d discovered VMs and uses %d MiB, before %d", got.DiscoveredVMs, got.UsedMiB(), before.UsedMiB())
	}
}

func TestMaintenanceBeginsNothingWithoutDecisions(t *testing.T) {
	s := newMaintenanceFixture(t)
	_, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{Decisions: decisions{"x": {Do: fleet.MaintenanceLeave}}})
	refusal := &fleet.Error{}
	if !errors.As(err, &refusal) || refusal.Code != fleet.Invalid {
		t.Fatalf("the maintenance began, %v", err)
	}
	var fields []string
	for _, f := range refusal.Fields {
		fields = append(fields, f.Field)
	}
	if want := []string{"decisions." + string(s.db.ID), "decisions." + string(s.legacy), "decisions.x"}; !slices.Equal(fields, want) {
		t.Errorf("the errors are at %v, want %v", fields, want)
	}
	s.wantLifecycle(fleet.LifecycleReady)
	if n := s.countRows("tasks WHERE kind LIKE 'host.%'"); n != 0 {
		t.Errorf("%d tasks were written", n)
	}
}

// TestMaintenanceMovesAndShutsDownVMs follows a host through the whole maintenance: a VM migrates, another one is shut
// down, a discovered one is left running; afterwards, all of them run on the host again.
func TestMaintenanceMovesAndShutsDownVMs(t *testing.T) {
	s := newMaintenanceFixture(t)
	task := s.enter(decisions{s.db.ID: {Do: fleet.MaintenanceShutdown}, s.legacy: {Do: fleet.MaintenanceLeave}})
	if task.Kind != fleet.HostMaintenanceEnter || task.HostID != s.h1 || task.SubjectName != "h1" || task.Steps == nil || task.Steps.Queued != 2 {
		t.Errorf("the task is %+v with %+v", task, task.Steps)
	}
	s.wantLifecycle(fleet.LifecycleDraining)
	s.wantRefused("a new VM", fleet.Invalid, "h1 is entering maintenance.", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "new", Spec: smallSpec})
		return err
	})
	s.wantRefused("a start", fleet.Conflict, "h1 is entering maintenance. Leave maintenance or migrate", func() error {
		_, err := s.RequestPowerAction(t.Context(), chief, s.old.ID, fleet.ActStart)
		return err
	})
	s.wantRefused("entering while the task runs", fleet.Conflict, "still entering maintenance", func() error {
		_, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{Decisions: decisions{s.db.ID: {Do: fleet.MaintenanceShutdown}, s.legacy: {Do: fleet.MaintenanceLeave}}})
		return err
	})
	s.wantRefused("leaving while the task runs", fleet.Conflict, "still entering maintenance", func() error {
		_, err := s.LeaveMaintenance(t.Context(), chief, s.h1, nil)
		return err
	})
	s.runPasses()
	s.finishMigration(s.web.ID, s.h1, s.h2)
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleDraining)
	if p, err := s.MaintenanceProgress(t.Context(), chief, s.h1); err != nil || p.IsStuck() || len(p.Remaining) != 1 || len(p.Left) != 1 || p.Task == nil || p.Task.Steps.Done != 1 {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	s.finishShutdown(s.db.ID, s.h1)
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleMaintenance)
	m := s.getHost(s.h1).Maintenance
	if m.By != "chief" || !slices.Equal(m.Stopped, []fleet.VMID{s.db.ID}) || !slices.Equal(m.Moved, []fleet.MovedVM{{VMID: s.web.ID, ToHost: s.h2}}) {
		t.Errorf("the maintenance is %+v", m)
	}
	s.wantRefused("entering twice", fleet.Conflict, "h1 is in maintenance already.", func() error {
		_, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{})
		return err
	})
	plan, err := s.PlanLeave(t.Context(), chief, s.h1)
	if err != nil || len(plan.Start) != 1 || plan.Start[0].Name != "db" || len(plan.Moved) != 1 || plan.Moved[0].HostName != "h2" || !plan.Moved[0].Allowed {
		t.Errorf("leaving does %+v, %v", plan, err)
	}
	s.wantRefused("bringing back another VM", fleet.Invalid, "did not move", func() error {
		_, err := s.LeaveMaintenance(t.Context(), chief, s.h1, []fleet.VMID{s.old.ID})
		return err
	})
	task, err = s.LeaveMaintenance(t.Context(), chief, s.h1, []fleet.VMID{s.web.ID})
	if err != nil || task.Kind != fleet.HostMaintenanceLeave || task.Steps.Queued != 2 {
		t.Fatalf("leaving is %+v, %v", task, err)
	}
	s.wantLifecycle(fleet.LifecycleReady)
	s.runPasses()
	s.finishMigration(s.web.ID, s.h2, s.h1)
	if got := s.getVM(s.web.ID); got.HostID != s.h1 {
		t.Errorf("web is on %s", got.HostName)
	}
	for _, kind := range []fleet.JobKind{fleet.VMStart} {
		if n := s.countRows(fmt.Sprintf("jobs WHERE kind = '%s' AND subject = 'vm:%s' AND state <> 'failed'", kind, s.db.ID)); n != 1 {
			t.Errorf("db has %d jobs of kind %s", n, kind)
		}
	}
}

// TestMaintenanceResumesAfterCancel cancels a maintenance and enters again with another portal over the same database.
func TestMaintenanceResumesAfterCancel(t *testing.T) {
	s := newMaintenanceFixture(t)
	task := s.enter(decisions{s.db.ID: {Do: fleet.MaintenanceShutdown}, s.legacy: {Do: fleet.MaintenanceLeave}})
	s.execSQL(`UPDATE tasks SET begin_after = now() + interval '1 hour' WHERE parent_id = $1 AND kind = 'vm.shutdown'`, task.ID) // begins after the migration
	s.runPasses()
	s.finishMigration(s.web.ID, s.h1, s.h2)
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Fatal(err)
	}
	if got := s.childStates(task.ID); got != "db cancelled, web done" && got != "web done, db cancelled" {
		t.Errorf("the children are %s", got)
	}
	other := control.New(s.pool, control.Options{})
	s.Control = other
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleDraining)
	p, err := s.MaintenanceProgress(t.Context(), chief, s.h1)
	if err != nil || !p.IsStuck() || len(p.Remaining) != 1 || p.Remaining[0].Name != "db" || !strings.Contains(p.Remaining[0].Reason, "Cancelled by chief") {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	plan, err := s.PlanMaintenance(t.Context(), chief, s.h1, false)
	if err != nil || plan.Undecided() != 0 {
		t.Errorf("the plan does not propose the earlier decisions: %+v, %v", plan, err)
	}
	if task, err = s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{}); err != nil || task.Steps.Queued != 1 {
		t.Fatalf("entering again is %+v, %v", task, err)
	}
	s.runPasses()
	s.finishShutdown(s.db.ID, s.h1)
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleMaintenance)
	if m := s.getHost(s.h1).Maintenance; len(m.Stopped) != 1 || len(m.Moved) != 1 {
		t.Errorf("the maintenance forgot what it did before the cancellation: %+v", m)
	}
}

func TestMaintenanceNamesVMThatDoesNotShutDown(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.enter(decisions{s.db.ID: {Do: fleet.MaintenanceShutdown}, s.legacy: {Do: fleet.MaintenanceLeave}, s.web.ID: {Do: fleet.MaintenanceLeave}})
	s.runPasses()
	w := s.claimOnlyJob(s.h1, fleet.VMShutdown)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Failed, Error: "The guest did not power off within 3 minutes.", Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleDraining)
	p, err := s.MaintenanceProgress(t.Context(), chief, s.h1)
	if err != nil || !p.IsStuck() || len(p.Remaining) != 1 || !strings.Contains(p.Remaining[0].Reason, "did not power off") {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	s.reportPower(s.db.ID, fleet.Stopped) // an administrator shuts it down
	s.runPasses()
	s.wantLifecycle(fleet.LifecycleMaintenance)
}

// TestMaintenanceMigrationsWaitForEachOther checks that migrations beyond the limit wait instead of failing, and begin
// as soon as another one has ended.
func TestMaintenanceMigrationsWaitForEachOther(t *testing.T) {
	s := newMaintenanceFixture(t)
	of := map[fleet.VMID]bool{s.web.ID: true}
	d := decisions{s.db.ID: {Do: fleet.MaintenanceLeave}, s.legacy: {Do: fleet.MaintenanceLeave}}
	for i := range 8 {
		of[s.migratableVM(fmt.Sprintf("more-%d", i), s.nfs).ID] = true
	}
	task := s.enter(d)
	s.runPasses()
	count := func() (running, waiting int) {
		return s.countRows("transfers t JOIN jobs j ON j.id = t.receive_job WHERE j.state IN ('queued', 'running')"),
			s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND pending AND begin_after IS NOT NULL")
	}
	if running, waiting := count(); running != 6 || waiting != 3 {
		t.Fatalf("%d migrations run and %d wait", running, waiting)
	}
	source, target := s.claimedWork(s.h1, fleet.VMMigrate), s.claimedWork(s.h2, fleet.VMReceive)
	for i := range target {
		if target[i].Subject == source[0].Subject {
			s.finishJobWith(s.h2, target[i], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
		}
	}
	s.finishJobWith(s.h1, source[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if running, waiting := count(); running != 5 || waiting != 0 {
		t.Errorf("after the end of a migration, %d run and %d still wait", running, waiting)
	}
	s.runPasses()
	if running, waiting := count(); running != 6 || waiting != 2 {
		t.Errorf("then %d migrations run and %d wait", running, waiting)
	}
}

func TestHostWithoutRunningVMsEntersMaintenanceAtOnce(t *testing.T) {
	s := newMaintenanceFixture(t)
	task, err := s.EnterMaintenance(t.Context(), chief, s.h2, control.EnterMaintenance{})
	if err != nil || task.State != fleet.JobDone || task.Subject != fleet.SubjectHost(s.h2) {
		t.Fatalf("the task is %+v, %v", task, err)
	}
	if h := s.getHost(s.h2); h.Lifecycle != fleet.LifecycleMaintenance || h.Maintenance.EnteredAt == nil {
		t.Errorf("h2 is %s", h.Lifecycle)
	}
	targets, err := s.MigrationTargets(t.Context(), chief, s.web.ID)
	if err != nil || len(targets) != 1 || targets[0].Reason != "h2 is in maintenance." {
		t.Errorf("the targets are %+v, %v", targets, err)
	}
	for filter, want := range map[string]int{"lifecycle:maintenance": 1, "lifecycle:ready": 1, "lifecycle:draining": 0} {
		if page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != want {
			t.Errorf("%s lists %d hosts, %v", filter, len(page.Items), err)
		}
	}
}

// TestHostInMaintenanceIsExpectedOffline checks that a host in maintenance that goes offline needs no attention.
func TestHostInMaintenanceIsExpectedOffline(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}' WHERE id = $1`, s.h2)
	s.execSQL(`DELETE FROM vms`)
	attention := func() (out []string) {
		o, err := s.Overview(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range o.Attention {
			if c.Kind == string(fleet.TypeHost) {
				out = append(out, c.Text)
			}
		}
		return out
	}
	s.goOffline(s.h2)
	h, err := s.GetHost(t.Context(), chief, s.h2)
	if err != nil || h.Lifecycle != fleet.LifecycleOffline || h.Phase != fleet.HostUnknown {
		t.Fatalf("h2 is %s %s, %v", h.Lifecycle, h.Phase, err)
	}
	if got := attention(); len(got) != 0 {
		t.Errorf("the list of what needs attention has %v", got)
	}
	page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: "lifecycle:offline"})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("lifecycle:offline lists %d hosts, %v", len(page.Items), err)
	}
}
