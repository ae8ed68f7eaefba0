package control_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (s *maintenanceFixture) evict() {
	s.t.Helper()
	s.markOnline()
	if err := s.EvictVMs(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// setTaint sets the host's taints.
func (s *maintenanceFixture) setTaint(json string) {
	s.t.Helper()
	s.execSQL(`UPDATE hosts SET spec = jsonb_set(spec, '{taints}', $2::jsonb) WHERE id = $1`, s.h1, json)
}

func TestNoExecuteTaintMovesVMsAndListsOthers(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.setTaint(`[{"key":"gpu","effect":"NoSchedule"}]`)
	s.evict()
	if n := s.countRows("jobs WHERE kind = 'vm.migrate'"); n != 0 {
		t.Errorf("a NoSchedule taint migrates %d VMs", n)
	}
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{placement}', '{"tolerations":"gpu"}') WHERE id = $1`, s.old.ID)
	s.setTaint(`[{"key":"gpu","effect":"NoExecute"}]`)
	s.evict()
	if got := s.jobList(fleet.SubjectVM(s.web.ID)); !strings.Contains(got, "vm.migrate queued") {
		t.Errorf("web has the tasks %s", got)
	}
	if got := s.jobList(fleet.SubjectVM(s.old.ID)); strings.Contains(got, "vm.migrate") {
		t.Errorf("old tolerates the taint, but has the tasks %s", got)
	}
	progress, err := s.MaintenanceProgress(t.Context(), chief, s.h1)
	if err != nil || len(progress.Tainted) != 1 || progress.Tainted[0].Name != "db" || !strings.Contains(progress.Tainted[0].Reason, "backed by an image") {
		t.Errorf("the host lists %+v, %v", progress.Tainted, err)
	}
	o, err := s.Overview(t.Context(), chief)
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, cause := range o.Attention {
		if strings.Contains(cause.Text, "NoExecute taint") && cause.Name == "db" {
			listed++
		}
	}
	if listed != 1 {
		t.Errorf("the list of what needs attention has %+v", o.Attention)
	}
	if n := s.countRows("audit WHERE action = 'vm.migrate' AND actor = 'Quantix'"); n != 1 {
		t.Errorf("%d migrations are audited", n)
	}
	s.finishMigration(s.web.ID, s.h1, s.h2)
	s.evict()
	if got := s.getVM(s.web.ID); got.HostID != s.h2 {
		t.Errorf("web is on %s", got.HostName)
	}
	for _, vm := range []fleet.VMView{s.db, s.old} {
		if got := s.getVM(vm.ID); got.Status.Power != vm.Status.Power || got.HostID != s.h1 {
			t.Errorf("%s is %s on %s", vm.Name, got.Status.Power, got.HostName)
		}
	}
	s.setTaint(`[]`)
	s.evict()
	if n := s.countRows("vm_evictions"); n != 0 {
		t.Errorf("%d VMs are listed without a taint", n)
	}
}

func TestNoExecuteMigrationIsNotRepeatedAtOnce(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{placement}', '{"tolerations":"gpu"}') WHERE id <> $1`, s.web.ID)
	s.setTaint(`[{"key":"gpu","effect":"NoExecute"}]`)
	// The VM needs a tolerance of its own.
	s.execSQL(`UPDATE vms SET spec = spec - 'placement' WHERE id = $1`, s.web.ID)
	s.evict()
	source, target := s.take(s.h1, fleet.VMMigrate, s.web.ID), s.take(s.h2, fleet.VMReceive, s.web.ID)
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Failed, Error: "the CPU lacks avx512f", VM: &fleet.VMStatus{Power: fleet.Absent}})
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Failed, Error: "the CPU lacks avx512f", VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	migrations := func() int { return s.countRows("tasks WHERE kind = 'vm.migrate'") }
	for range 3 {
		s.evict()
	}
	if n := migrations(); n != 1 {
		t.Errorf("%d migrations were requested", n)
	}
	progress, err := s.MaintenanceProgress(t.Context(), chief, s.h1)
	if err != nil || len(progress.Tainted) != 1 || !strings.Contains(progress.Tainted[0].Reason, "The migration failed: the CPU lacks avx512f") {
		t.Errorf("the host lists %+v, %v", progress.Tainted, err)
	}
	s.execSQL(`UPDATE vm_evictions SET next_at = now()`)
	s.evict()
	if n := migrations(); n != 2 {
		t.Errorf("after the wait, %d migrations were requested", n)
	}
	if n := s.countRows("vm_evictions WHERE tries = 2 AND next_at > now() + interval '90 seconds'"); n != 1 {
		t.Error("the wait after the second failure is not longer")
	}
}

func TestNoExecuteTaintWaitsForMaintenance(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.setTaint(`[{"key":"gpu","effect":"NoExecute"}]`)
	s.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief"}' WHERE id = $1`, s.h1)
	s.evict()
	if n := s.countRows("tasks WHERE kind = 'vm.migrate'"); n != 0 {
		t.Errorf("%d VMs of a host that is entering maintenance migrate", n)
	}
}

func TestEvictionErrorOfOneVMLeavesOthersMoving(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.setTaint(`[{"key":"gpu","effect":"NoExecute"}]`)
	s.markOnline()
	// The database fails for the first VM of the pass.
	var first fleet.VMID
	if err := s.pool.QueryRow(t.Context(), `SELECT min(id) FROM vms WHERE host_id = $1`, s.h1).Scan(&first); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`CREATE FUNCTION fail_eviction() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the disk failed'; END $$`)
	s.execSQL(`CREATE TRIGGER fail BEFORE UPDATE ON vm_evictions FOR EACH ROW WHEN (NEW.vm_id = '` + string(first) + `') EXECUTE FUNCTION fail_eviction()`)
	if err := s.EvictVMs(t.Context(), fleet.SystemActor); err == nil {
		t.Error("the pass reports no error")
	}
	if n := s.countRows(`jobs WHERE kind = 'vm.migrate' AND subject <> 'vm:` + string(first) + `'`); n == 0 {
		t.Error("an error of one VM stops the migration of the others")
	}
}
