package control_test

import (
	"fmt"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestBulkDeleteNeedsPermission(t *testing.T) {
	s := newTaskFixture(t)
	off, on, kept := s.createVM("off", fleet.Stopped), s.createVM("on", fleet.Running), s.createVM("kept", fleet.Stopped)
	if _, err := s.SetVMProtection(t.Context(), chief, kept.ID, control.ProtectVM{Protected: true}); err != nil {
		t.Fatal(err)
	}
	ids := []fleet.VMID{off.ID, on.ID, kept.ID}
	s.wantRefused("a viewer", fleet.Forbidden, "do not have permission", func() error {
		_, err := s.DeleteVMs(t.Context(), s.viewer, ids, control.VMDeletion{Disks: true})
		return err
	})
	task, err := s.DeleteVMs(t.Context(), s.member, ids, control.VMDeletion{Disks: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.childStates(task.ID), "off queued, on queued, kept failed"; got != want {
		t.Errorf("the task's children are %s, want %s", got, want)
	}
	s.beginTasks()
	if n := s.countRows("jobs WHERE kind = 'vm.delete' AND state = 'queued' AND args->>'deleteDisks' = 'true'"); n != 2 {
		t.Errorf("%d deletions with disks, want 2", n)
	}
	s.endJob(off.ID, "done")
	s.endJob(on.ID, "done")
	s.wantTask(task.ID, fleet.JobFailed, 100, fleet.Steps{Done: 2, Refused: 1})
	if got := s.getVM(kept.ID); got.DeletedAt != nil {
		t.Error("a protected VM is deleted with others")
	}
}

func TestBulkSnapshotIsOneTask(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	s.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '') ON CONFLICT DO NOTHING`)
	a, b := s.vmToMigrate("a"), s.vmToMigrate("b")
	ids := []fleet.VMID{a.ID, b.ID}
	s.wantRefused("without a name", fleet.Invalid, "", func() error { _, err := s.SnapshotVMs(t.Context(), chief, ids, control.NewSnapshot{}); return err })
	task, err := s.SnapshotVMs(t.Context(), chief, ids, control.NewSnapshot{Name: "before the upgrade", Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if n := s.countRows("jobs WHERE kind = 'vm.snapshot' AND args #>> '{snapshot,name}' = 'before the upgrade'"); n != 2 {
		t.Errorf("%d snapshots are requested, want 2: %s", n, s.childStates(task.ID))
	}
	s.endJob(a.ID, "done")
	s.endJob(b.ID, "done")
	s.wantTask(task.ID, fleet.JobDone, 100, fleet.Steps{Done: 2})
}

// TestBulkMigrationsWaitForEachOther checks that migrations beyond the limit wait with a reason instead of failing, and
// that the limit does not refuse a single migration.
func TestBulkMigrationsWaitForEachOther(t *testing.T) {
	s := newMaintenanceFixture(t)
	ids := []fleet.VMID{}
	for i := range 8 {
		ids = append(ids, s.migratableVM(fmt.Sprintf("busy-%d", i), s.nfs).ID)
	}
	task, err := s.MigrateVMs(t.Context(), chief, ids, control.MigrateVM{HostID: s.h2})
	if err != nil {
		t.Fatal(err)
	}
	s.runPasses()
	waiting := "tasks WHERE parent_id = '" + string(task.ID) + "' AND pending AND note = 'waiting for one of 6 transfers to end'"
	if n := s.countRows(waiting); n != 2 {
		t.Fatalf("%d migrations wait, want 2: %s", n, s.childStates(task.ID))
	}
	if _, err := s.MigrateVM(t.Context(), chief, s.web.ID, control.MigrateVM{HostID: s.h2}); err != nil {
		t.Errorf("a single migration beside them: %v", err)
	}
}

// TestBulkMigrationWaitsForHypervisor checks that a child waits while the target's hypervisor does not answer, and starts
// when it answers again. A single migration is refused.
func TestBulkMigrationWaitsForHypervisor(t *testing.T) {
	for name, target := range map[string]func(s *maintenanceFixture) fleet.HostID{
		"to a named host":    func(s *maintenanceFixture) fleet.HostID { return s.h2 },
		"to the best target": func(*maintenanceFixture) fleet.HostID { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newMaintenanceFixture(t)
			s.execSQL(`UPDATE host_sessions SET last_look = now() - interval '1 hour' WHERE host_id <> $1`, s.h1)
			in := control.MigrateVM{HostID: target(s)}
			s.wantRefused("a single migration", fleet.Invalid, "The hypervisor of h2 does not answer", func() error {
				_, err := s.MigrateVM(t.Context(), chief, s.web.ID, in)
				return err
			})
			task, err := s.MigrateVMs(t.Context(), chief, []fleet.VMID{s.web.ID}, in)
			if err != nil {
				t.Fatal(err)
			}
			s.beginTasks()
			child := "tasks WHERE parent_id = '" + string(task.ID) + "' AND "
			if n := s.countRows(child + "pending AND note LIKE 'waiting: The hypervisor of h2 does not answer:%'"); n != 1 {
				t.Fatalf("the child does not wait: %s", s.childStates(task.ID))
			}
			s.execSQL(`UPDATE host_sessions SET last_look = now()`)
			s.execSQL(`UPDATE tasks SET begin_after = now() WHERE pending`)
			s.beginTasks()
			if n := s.countRows(child + "NOT pending AND note = '' AND state IN ('queued', 'running')"); n != 1 {
				t.Errorf("the child did not start: %s", s.childStates(task.ID))
			}
		})
	}
}

func TestBulkColdMigrationIsOneTask(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	s.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '') ON CONFLICT DO NOTHING`)
	v := s.vmToMigrate("web")
	s.wantRefused("a member", fleet.Forbidden, "do not have permission", func() error {
		_, err := s.MigrateVMs(t.Context(), s.member, []fleet.VMID{v.ID}, control.MigrateVM{HostID: s.h2})
		return err
	})
	task, err := s.MigrateVMs(t.Context(), chief, []fleet.VMID{v.ID}, control.MigrateVM{HostID: s.h2, RateBytes: 10 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	w := s.claimOnlyJob(s.h1, fleet.VMMigrate)
	s.finishReceiveJobs(2)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if now := s.getVM(v.ID); now.HostID != s.h2 {
		t.Errorf("it is on %s", now.HostName)
	}
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("%+v %v", got, err)
	}
}
