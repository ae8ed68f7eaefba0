package control_test

import (
	"reflect"
	"slices"
	"strings"
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
	if _, err := s.Progress(t.Context(), s.agents[s.h2], target.ID, wire.Progress{Epoch: target.Epoch, Note: "receiving the guest"}); err != nil {
		t.Fatal(err)
	}
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
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone || got.Note != "now on h2" {
		t.Errorf("the task is %s %s %q, %v", got.State, got.Error, got.Note, err)
	}
	s.claimOnlyJob(s.h2, fleet.VMApply)
}

// The source's agent restarts after the target has received the VM. It gets its job again, to remove its own guest, but not
// the VM's spec, which only the VM's host may read.
func TestSourceGetsJobOfArrivedVMAgain(t *testing.T) {
	s := newLibraryFixture(t)
	v := s.migratableVM("web", s.nfs)
	task, source, target := s.migrateLive(v)
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	s.execSQL(`UPDATE jobs SET state = 'queued', lease_until = NULL, run_after = now() WHERE id = $1`, source.ID)
	again := s.claimOnlyJob(s.h1, fleet.VMMigrate)
	if again.ID != source.ID || again.VM == nil || again.VM.ID != v.ID || again.VM.HostID != s.h2 {
		t.Fatalf("the source gets %+v with the VM %+v", again, again.VM)
	}
	if want := (fleet.VM{Meta: fleet.Meta{ID: v.ID, Name: "web", HostID: s.h2, Generation: again.VM.Generation}}); !reflect.DeepEqual(*again.VM, want) {
		t.Errorf("the source gets the VM %+v, want %+v", *again.VM, want)
	}
	if again.Mark != "" || again.SpecHash != "" || again.Project != "" || len(again.Pools)+len(again.CreatedDisks)+len(again.SecurityGroups) > 0 {
		t.Errorf("the source gets more of another host's VM than it needs: %+v", again)
	}
	s.finishJobWith(s.h1, again, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("the task is %s %s, %v", got.State, got.Error, err)
	}
}

// A source that reports success without sending must not let the target wait for ever.
func TestTargetLearnsOfEndedSource(t *testing.T) {
	s := newLibraryFixture(t)
	v := s.migratableVM("web", s.nfs)
	_, source, target := s.migrateLive(v)
	id := source.Args.Migrate.Live
	if got := s.meetTransfer(s.h2, target, id, wire.TransferState{}); got.PeerError != "" {
		t.Errorf("during the migration the target learns of the error %q", got.PeerError)
	}
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	if got := s.meetTransfer(s.h2, target, id, wire.TransferState{}); got.PeerError != "It reports success, but this host has not received everything." || got.Received {
		t.Errorf("after the source's end the target learns of %+v, want an error", got)
	}
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Failed, Error: "The transfer failed.", VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got := s.getVM(v.ID); got.HostID != s.h1 {
		t.Errorf("the VM belongs to %s", got.HostName)
	}
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
			power, text := fleet.Running, "h2 cannot receive the VM: the CPU lacks avx512f"
			if hosts[i] == s.h2 {
				power, text = fleet.Absent, "the CPU lacks avx512f"
			}
			s.finishJobWith(hosts[i], w, wire.Finish{Outcome: wire.Failed, Error: text, VM: &fleet.VMStatus{Power: power, CPUs: 1, MemoryMiB: 256}})
		}
		got := s.getVM(v.ID)
		if got.HostID != s.h1 || got.Status.Power != fleet.Running {
			t.Errorf("after a failure of the %s, the VM belongs to %s, %s", name, got.HostName, got.Status.Power)
		}
		if now, err := s.GetTask(t.Context(), chief, task.ID); err != nil || now.State != fleet.JobFailed || now.Error != "h2 cannot receive the VM: the CPU lacks avx512f" {
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
	s.wantRefused("a disk in a pool of one host", fleet.Invalid, "Pool local is not assigned to h2", migrate(local.ID, control.MigrateVM{}))
	s.wantRefused("cold", fleet.Invalid, "web is running", migrate(running.ID, control.MigrateVM{Mode: fleet.MigrateCold}))
	s.wantRefused("another mode", fleet.Invalid, "Choose auto, live or cold", migrate(running.ID, control.MigrateVM{Mode: "warm"}))
	s.wantRefused("a pool of no host", fleet.Invalid, "Choose the host that has the pool", func() error {
		_, err := s.MigrateVM(t.Context(), chief, running.ID, control.MigrateVM{PoolID: s.nfs})
		return err
	})
	s.wantRefused("too many connections", fleet.Invalid, "1 to 16 connections", migrate(running.ID, control.MigrateVM{Options: fleet.MigrationOptions{Channels: 17}}))
	s.wantRefused("post-copy with several connections", fleet.Invalid, "cannot combine post-copy", migrate(running.ID, control.MigrateVM{Options: fleet.MigrationOptions{PostCopy: true, Channels: 2}}))
	s.wantRefused("an action without a time", fleet.Invalid, "Enter the time", migrate(running.ID, control.MigrateVM{Options: fleet.MigrationOptions{OnTimeout: fleet.ExpiryCancel}}))
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,overlay}', 'true') WHERE id = $1`, local.ID)
	s.wantRefused("a copied disk with a backing file", fleet.Invalid, "backed by an image in its pool", migrate(local.ID, control.MigrateVM{}))
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"stopped"') WHERE id = $1`, running.ID)
	s.wantRefused("an option while off", fleet.Invalid, "live migrations only", migrate(running.ID, control.MigrateVM{Options: fleet.MigrationOptions{PostCopy: true}}))
	s.wantRefused("live while off", fleet.Invalid, "its migration is cold", migrate(running.ID, control.MigrateVM{Mode: fleet.MigrateLive}))
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"paused"') WHERE id = $1`, running.ID)
	s.wantRefused("paused", fleet.Conflict, "Only a running or a stopped VM", migrate(running.ID, control.MigrateVM{}))
}

func TestLiveMigrationCopiesLocalDisks(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.migratableVM("web", s.local)
	task, source, target := s.migrateLive(v)
	order := source.Args.Migrate
	if len(order.Disks) != 1 || len(order.Stay) != 0 || order.Disks[0].Transfer != "" || order.Disks[0].Disk != v.Spec.Disks[0].Ref() || order.Disks[0].To.PoolID != s.local || order.Disks[0].To == order.Disks[0].Disk {
		t.Fatalf("the migration copies %+v and leaves %v", order.Disks, order.Stay)
	}
	if len(s.claimedWork(s.h2, fleet.VolumeReceive)) != 0 {
		t.Error("another job receives the disk, too")
	}
	var coming int64
	if err := s.pool.QueryRow(t.Context(), `SELECT sum(takes) FROM moves_in($1) WHERE host_id = $2`, s.local, s.h2).Scan(&coming); err != nil || coming != 1<<30 {
		t.Errorf("the copy reserves %d bytes in the pool of h2, %v", coming, err)
	}
	edited := v.Spec
	edited.Disks = nil
	s.wantRefused("remove the disk", fleet.Conflict, "another pool or host", func() error {
		_, _, err := s.UpdateVM(t.Context(), chief, v.ID, control.UpdateVM{Spec: &edited})
		return err
	})
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got := s.getVM(v.ID); got.HostID != s.h2 || got.Spec.Disks[0].Ref() != order.Disks[0].To {
		t.Errorf("the VM is on %s with %v", got.HostName, got.Spec.Disks[0].Ref())
	}
	if now, err := s.GetTask(t.Context(), chief, task.ID); err != nil || now.State != fleet.JobDone {
		t.Errorf("the task is %s %s, %v", now.State, now.Error, err)
	}
	if jobs := s.claimedWork(s.h1, fleet.VolumeDelete); len(jobs) != 0 {
		t.Error("the old disk is deleted before the new host has defined the VM")
	}
	apply := s.claimOnlyJob(s.h2, fleet.VMApply)
	s.finishJobWith(s.h2, apply, wire.Finish{Outcome: wire.Done, Generation: apply.VM.Generation, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	if gone := s.claimOnlyJob(s.h1, fleet.VolumeDelete); gone.Subject != fleet.SubjectVolume(order.Disks[0].Disk) {
		t.Errorf("the deleted volume is %s", gone.Subject)
	}
}

func TestLiveMigrationRequiresAgentsOfSameProtocol(t *testing.T) {
	s := newLibraryFixture(t)
	v := s.migratableVM("web", s.nfs)
	for name, host := range map[string]fleet.HostID{"h1": s.h1, "h2": s.h2} {
		s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,migratesLive}', to_jsonb(id <> $1))`, host)
		s.wantRefused("with an older agent on "+name, fleet.Invalid, "The agent of "+name+" is too old to migrate VMs live. Update the agent.", func() error {
			_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
			return err
		})
	}
	s.execSQL(`UPDATE hosts SET status = CASE WHEN id = $1 THEN NULL ELSE jsonb_set(status, '{inventory,migratesLive}', 'true') END`, s.h2)
	plans, err := s.PlanMigrations(t.Context(), chief, []fleet.VMID{v.ID})
	if err != nil || len(plans[0].Targets) == 0 || slices.ContainsFunc(plans[0].Targets, func(o fleet.MigrationTarget) bool { return o.Allowed || strings.Contains(o.Reason, "too old") }) {
		t.Errorf("with a host that has not reported yet, the plan is %+v, %v", plans, err)
	}
}

func TestMigrationWithoutHostChoosesBestHost(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	shared, local := s.migratableVM("shared", s.nfs), s.migratableVM("local", s.local)
	plans, err := s.PlanMigrations(t.Context(), chief, []fleet.VMID{shared.ID, local.ID})
	if err != nil || len(plans) != 2 {
		t.Fatal(plans, err)
	}
	for i, want := range []fleet.MigrationMethod{fleet.MethodShared, fleet.MethodCopy} {
		p := plans[i]
		if p.Reason != "" || p.Best == nil || p.Best.HostID != s.h2 || p.Best.Method != want {
			t.Errorf("the plan of %s is %q %+v", p.Name, p.Reason, p.Best)
		}
	}
	if best := plans[1].Best; best != nil && best.CopyBytes != 256<<20+1<<30 {
		t.Errorf("the copied bytes are %d", best.CopyBytes)
	}
	task, err := s.MigrateVM(t.Context(), chief, shared.ID, control.MigrateVM{})
	if err != nil {
		t.Fatal(err)
	}
	if source := s.claimOnlyJob(s.h1, fleet.VMMigrate); source.Args.Migrate.To != s.h2 {
		t.Errorf("%s goes to %s", task.SubjectName, source.Args.Migrate.ToName)
	}
	if plans, err = s.PlanMigrations(t.Context(), chief, []fleet.VMID{shared.ID}); err != nil || !strings.Contains(plans[0].Reason, "already migrating") || plans[0].Best != nil {
		t.Errorf("during the migration, the plan is %+v, %v", plans[0], err)
	}
	s.execSQL(`UPDATE hosts SET spec = jsonb_set(spec, '{schedulable}', 'false') WHERE id <> $1`, s.h1)
	s.wantRefused("no suitable host", fleet.Invalid, "h2 is cordoned", func() error { _, err := s.MigrateVM(t.Context(), chief, local.ID, control.MigrateVM{}); return err })
}

func TestMigrationPlanListsEveryReason(t *testing.T) {
	s := newLibraryFixture(t)
	v := s.migratableVM("web", s.local)
	s.execSQL(`UPDATE hosts SET spec = jsonb_set(spec, '{schedulable}', 'false') WHERE id = $1`, s.h2)
	plans, err := s.PlanMigrations(t.Context(), chief, []fleet.VMID{v.ID})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plans[0].Targets, func(o fleet.MigrationTarget) bool { return o.HostID == s.h2 })
	if i < 0 {
		t.Fatalf("the plan lacks h2: %+v", plans[0].Targets)
	}
	got := strings.Join(plans[0].Targets[i].Reasons, " ")
	if !strings.Contains(got, "h2 is cordoned") || !strings.Contains(got, "Pool local is not assigned to h2") || plans[0].Best != nil {
		t.Errorf("the reasons are %q, the best target %v", got, plans[0].Best)
	}
}

func TestMigrationEstimateFollowsMeasuredRate(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.migratableVM("web", s.local)
	estimate := func() int64 {
		plans, err := s.PlanMigrations(t.Context(), chief, []fleet.VMID{v.ID})
		if err != nil || plans[0].Best == nil {
			t.Fatal(plans, err)
		}
		return plans[0].Best.EstimateSeconds
	}
	if got := estimate(); got != 0 {
		t.Errorf("without a measured rate, the estimate is %d s", got)
	}
	_, source, target := s.migrateLive(s.migratableVM("first", s.nfs))
	s.execSQL(`UPDATE jobs SET started_at = now() - interval '2 seconds' WHERE id = $1`, target.ID)
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}})
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got := estimate(); got < 8 || got > 15 { // 1,280 MiB at about 128 MiB/s
		t.Errorf("after 256 MiB in 2 s, the estimate is %d s", got)
	}
}

// The target can apply the VM before the source's agent has removed its guest, which still uses the old disks.
func TestOldDisksDeletedOnceSourceHasRemovedGuest(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.migratableVM("web", s.local)
	_, source, target := s.migrateLive(v)
	running := &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: running})
	apply := s.claimOnlyJob(s.h2, fleet.VMApply)
	s.finishJobWith(s.h2, apply, wire.Finish{Outcome: wire.Done, Generation: apply.VM.Generation, VM: running})
	if jobs := s.claimedWork(s.h1, fleet.VolumeDelete); len(jobs) != 0 {
		t.Error("the old disk is deleted while the source's migration job runs")
	}
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if gone := s.claimOnlyJob(s.h1, fleet.VolumeDelete); gone.Subject != fleet.SubjectVolume(source.Args.Migrate.Disks[0].Disk) {
		t.Errorf("the deleted volume is %s", gone.Subject)
	}
}

func TestStrandedDisksDeletedOnceOldHostLacksVM(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.migratableVM("web", s.local)
	_, source, target := s.migrateLive(v)
	running := &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: running})
	apply := s.claimOnlyJob(s.h2, fleet.VMApply)
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Failed, Error: "The guest also runs on this host."})
	s.finishJobWith(s.h2, apply, wire.Finish{Outcome: wire.Done, Generation: apply.VM.Generation, VM: running})
	pass := func(what string, want int) {
		t.Helper()
		s.markOnline()
		if err := s.DeleteStrandedDisks(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		if got := s.claimedWork(s.h1, fleet.VolumeDelete); len(got) != want {
			t.Errorf("%s, %d disks are deleted, want %d", what, len(got), want)
		}
	}
	s.execSQL(`UPDATE jobs SET ended_at = now() - interval '1 day' WHERE id = $1`, source.ID)
	pass("after a failed job, whose disks may be newer", 0)
	s.execSQL(`UPDATE jobs SET state = 'unknown', ended_at = now() WHERE id = $1`, source.ID)
	pass("just after a job with an unknown result", 0)
	s.execSQL(`UPDATE jobs SET ended_at = now() - interval '2 minutes' WHERE id = $1`, source.ID)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'web', '{"power":"paused"}')`, s.h1, v.ID)
	pass("while the old host has the domain", 0)
	s.execSQL(`DELETE FROM found_vms`)
	pass("once the old host lacks the domain", 1)
}

func TestOldDisksDeletedAfterFailedJobOfHostWithoutVM(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.migratableVM("web", s.local)
	_, source, target := s.migrateLive(v)
	running := &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256}
	s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done, VM: running})
	apply := s.claimOnlyJob(s.h2, fleet.VMApply)
	s.finishJobWith(s.h2, apply, wire.Finish{Outcome: wire.Done, Generation: apply.VM.Generation, VM: running})
	s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Failed, Error: "The connection was lost.", VM: &fleet.VMStatus{Power: fleet.Absent}})
	s.claimOnlyJob(s.h1, fleet.VolumeDelete)
}
