package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// migratableVM returns a VM of project red that runs on h1, with a disk in the given pool.
func (s *libraryFixture) migratableVM(name string, pool fleet.PoolID) fleet.VMView {
	s.t.Helper()
	spec := smallSpec
	spec.Disks = []fleet.Disk{{PoolID: pool, SizeBytes: 1 << 30}}
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	ref := v.Spec.Disks[0].Ref()
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = $2 WHERE id = $1`, v.ID, fleet.VMStatus{
		Power: fleet.Running, CPUs: 1, MemoryMiB: 256, Disks: []fleet.DiskState{{Target: "vda", Volume: &ref, SizeBytes: 1 << 30}},
	})
	return s.getVM(v.ID)
}

// migrateLive requests a live migration to h2 and returns the jobs of both hosts.
func (s *libraryFixture) migrateLive(v fleet.VMView) (task fleet.Task, source, target wire.Work) {
	s.t.Helper()
	task, err := s.MigrateVM(s.t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2, Mode: fleet.MigrateLive})
	if err != nil {
		s.t.Fatal(err)
	}
	return task, s.claimOnlyJob(s.h1, fleet.VMMigrate), s.claimOnlyJob(s.h2, fleet.VMReceive)
}

func TestLiveMigrationAssignsVMOnceTargetRunsIt(t *testing.T) {
	s := newLibraryFixture(t)
	v := s.migratableVM("web", s.nfs)
	task, source, target := s.migrateLive(v)
	if target.VM == nil || target.VM.ID != v.ID || len(target.Pools) != 1 || target.Args.Migrate == nil || target.Args.Migrate.Live != source.Args.Migrate.Live {
		t.Fatalf("the target's job is %+v with %+v", target, target.Args.Migrate)
	}
	if disks := source.Args.Migrate; len(disks.Disks) != 0 || len(disks.Stay) != 1 {
		t.Errorf("the migration sends %v and leaves %v", disks.Disks, disks.Stay)
	}
	if got := s.getVM(v.ID); got.HostID != s.h1 {
		t.Errorf("the VM belongs to %s during the migration", got.HostName)
	}
	// The target has reported its incoming guest.
	s.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) VALUES ($1, $2, 'paused', 1, true)`, v.ID, s.h2)
	s.wantRefused("choose the target as the VM's host", fleet.Conflict, "migrating to h2", func() error {
		_, err := s.ChooseVMHost(t.Context(), chief, v.ID, s.h2)
		return err
	})
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	if got := s.getVM(v.ID); got.HostID != s.h2 || got.Status.Power != fleet.Running {
		t.Errorf("the VM belongs to %s, %s, after the target has reported it", got.HostName, got.Status.Power)
	}
	if got := s.getVM(v.ID); len(got.Sightings) != 0 {
		t.Errorf("the VM's own host is listed as another host with the VM: %+v", got.Sightings)
	}
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got := s.getVM(v.ID); got.HostID != s.h2 || got.Status.Power != fleet.Running {
		t.Errorf("the source's result moved the VM to %s, %s", got.HostName, got.Status.Power)
	}
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("the task is %s %s, %v", got.State, got.Error, err)
	}
	s.claimOnlyJob(s.h2, fleet.VMApply)
}

func TestFailedLiveMigrationLeavesVMOnSource(t *testing.T) {
	s := newLibraryFixture(t)
	for name, failing := range map[string]bool{"target": true, "source": false} {
		v := s.migratableVM("web-"+name, s.nfs)
		task, source, target := s.migrateLive(v)
		hosts := []fleet.HostID{s.h1, s.h2}
		works := []wire.Work{source, target}
		if failing {
			hosts, works = []fleet.HostID{s.h2, s.h1}, []wire.Work{target, source}
		}
		for i, w := range works {
			power := fleet.Running
			if hosts[i] == s.h2 {
				power = fleet.Absent
			}
			s.finishJobWith(hosts[i], w, wire.Finish{Outcome: wire.Failed, Error: "the CPU lacks avx512f", VM: &fleet.VMStatus{Power: power, CPUs: 1, MemoryMiB: 256}})
		}
		got := s.getVM(v.ID)
		if got.HostID != s.h1 || got.Status.Power != fleet.Running {
			t.Errorf("after a failure of the %s, the VM belongs to %s, %s", name, got.HostName, got.Status.Power)
		}
		if now, err := s.GetTask(t.Context(), chief, task.ID); err != nil || now.State != fleet.JobFailed || now.Error == "" {
			t.Errorf("after a failure of the %s, the task is %s %q, %v", name, now.State, now.Error, err)
		}
	}
}

func TestLiveMigrationRefusals(t *testing.T) {
	s := newLibraryFixture(t)
	running, local := s.migratableVM("web", s.nfs), s.migratableVM("local", s.local)
	migrate := func(id fleet.VMID, in control.MigrateVM) func() error {
		in.HostID = s.h2
		return func() error { _, err := s.MigrateVM(t.Context(), chief, id, in); return err }
	}
	s.wantRefused("a disk in a local pool", fleet.Invalid, "not in a shared pool of both hosts", migrate(local.ID, control.MigrateVM{}))
	s.wantRefused("cold", fleet.Invalid, "web is running", migrate(running.ID, control.MigrateVM{Mode: fleet.MigrateCold}))
	s.wantRefused("another mode", fleet.Invalid, "Choose auto, live or cold", migrate(running.ID, control.MigrateVM{Mode: "warm"}))
	s.wantRefused("with a pool", fleet.Invalid, "Leave the pool empty", migrate(running.ID, control.MigrateVM{PoolID: s.nfs}))
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"stopped"') WHERE id = $1`, running.ID)
	s.wantRefused("live while off", fleet.Invalid, "its migration is cold", migrate(running.ID, control.MigrateVM{Mode: fleet.MigrateLive}))
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"paused"') WHERE id = $1`, running.ID)
	s.wantRefused("paused", fleet.Conflict, "Only a running or a stopped VM", migrate(running.ID, control.MigrateVM{}))
}
