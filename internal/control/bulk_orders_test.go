package control_test

import (
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
	s.wantRefused("a viewer", fleet.Forbidden, "do not have permission", func() error { _, err := s.DeleteVMs(t.Context(), s.viewer, ids, true); return err })
	task, err := s.DeleteVMs(t.Context(), s.member, ids, true)
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
