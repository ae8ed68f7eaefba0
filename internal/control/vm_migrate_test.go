package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// vmToMigrate returns a VM of project red on h1 that is off. It has two disks in a local pool that is assigned to both
// hosts.
func (s *libraryFixture) vmToMigrate(name string) fleet.VMView {
	s.t.Helper()
	spec := smallSpec
	spec.Disks = []fleet.Disk{{PoolID: s.local, SizeBytes: 1 << 30}, {PoolID: s.local, SizeBytes: 2 << 30}}
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	status := fleet.VMStatus{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 256}
	for _, d := range v.Spec.Disks {
		ref := d.Ref()
		status.Disks = append(status.Disks, fleet.DiskState{Target: "vda", Volume: &ref, SizeBytes: d.SizeBytes})
	}
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = $2 WHERE id = $1`, v.ID, status)
	return s.getVM(v.ID)
}

func (s *libraryFixture) migrateToH2(v fleet.VMView) fleet.Task {
	s.t.Helper()
	task, err := s.MigrateVM(s.t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2, RateBytes: 10 << 20})
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

// finishReceiveJobs claims the second host's receive jobs, checks that there are n, and finishes them.
func (s *libraryFixture) finishReceiveJobs(n int) {
	s.t.Helper()
	w := s.claimedWork(s.h2, fleet.VolumeReceive)
	if len(w) != n {
		s.t.Fatalf("the second host is to receive %d files", len(w))
	}
	for _, in := range w {
		if !in.Args.Volume.Transfer.Check || in.Args.Volume.Transfer.RateBytes != 10<<20 {
			s.t.Errorf("%+v", in.Args.Volume.Transfer)
		}
		s.finishVolume(s.h2, in, `{}`)
	}
}

func TestColdMigrationSwitchesHostAfterSendAndReceiveSucceed(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("web")
	for name, a := range map[string]fleet.Actor{"a member": s.member, "a viewer": s.viewer, "a user of another project": s.blueMember} {
		s.wantRefused(name, fleet.Forbidden, "do not have permission", func() error {
			_, err := s.MigrateVM(t.Context(), a, v.ID, control.MigrateVM{HostID: s.h2})
			return err
		})
	}
	s.wantRefused("the VM's own host", fleet.Invalid, "on this host already", func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h1})
		return err
	})
	task := s.migrateToH2(v)
	s.wantRefused("again", fleet.Conflict, "already migrating to h2", func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
		return err
	})
	s.wantRefused("release the pool that its disks go to", fleet.Conflict, "Disks of web are being moved to pool local", func() error {
		_, err := s.Release(t.Context(), chief, fleet.SubjectPool(s.local), s.h2)
		return err
	})
	w := s.claimOnlyJob(s.h1, fleet.VMMigrate)
	order := w.Args.Migrate
	if order == nil || order.To != s.h2 || len(order.Disks) != 2 || w.VM == nil || len(w.Pools) != 1 || order.Disks[0].To.Volume == v.Spec.Disks[0].Volume || order.Disks[0].To == order.Disks[1].To {
		t.Fatalf("the order is %+v", order)
	}

	// Jobs requested for the VM during the migration wait until the migration has ended.
	if _, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActStart); err != nil {
		t.Fatal(err)
	}
	if got := s.claimedWork(s.h1, fleet.VMStart); len(got) != 0 {
		t.Fatal("the VM is started during its migration")
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{faults}', jsonb_build_array(jsonb_build_object('code', 'disk', 'text', 'gone', 'disk', spec #> '{disks,1}'))) WHERE id = $1`, v.ID)
	s.wantRefused("detach a disk", fleet.Conflict, "being moved", func() error { _, _, err := s.DetachDisk(t.Context(), chief, v.ID, v.Spec.Disks[1].Ref()); return err })
	s.finishReceiveJobs(2)
	if got := s.getVM(v.ID); got.HostID != s.h1 || got.Spec.Disks[0].Ref() != v.Spec.Disks[0].Ref() {
		t.Fatal("the VM is on the target before the source has finished")
	}
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Absent}})
	now := s.getVM(v.ID)
	if now.HostID != s.h2 || now.Spec.Disks[0].Ref() != order.Disks[0].To || now.Spec.Disks[1].Ref() != order.Disks[1].To || now.Spec.Disks[1].SizeBytes != 2<<30 || now.Generation < v.Generation+2 {
		t.Fatalf("the VM is on %s with %+v at generation %d", now.HostName, now.Spec.Disks, now.Generation)
	}
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("%+v %v", got, err)
	}
	if got := s.auditActions("vm.migrate"); !strings.Contains(got, "web") {
		t.Errorf("the audit tells of %q", got)
	}

	// The new host gets the waiting start job. The old disks stay until the new host has defined the VM.
	if got := s.claimedWork(s.h1, fleet.VolumeDelete); len(got) != 0 {
		t.Fatalf("the old disks are deleted before the new host has the VM: %+v", got)
	}
	start := s.claimOnlyJob(s.h2, fleet.VMStart)
	if len(start.CreatedDisks) < 2 || start.VM.Spec.Disks[0].Ref() != order.Disks[0].To {
		t.Errorf("the new host's job names %v as created", start.CreatedDisks)
	}
	s.finishJobWith(s.h2, start, wire.Finish{Outcome: wire.Failed, Generation: start.Generation, Error: "out of memory"})
	if got := s.claimedWork(s.h1, fleet.VolumeDelete); len(got) != 0 {
		t.Fatalf("the old disks are deleted although the new host failed: %+v", got)
	}
	apply := s.claimOnlyJob(s.h2, fleet.VMApply)
	s.finishJobWith(s.h2, apply, wire.Finish{Outcome: wire.Done, Generation: apply.Generation, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	for range 2 {
		deletes := s.claimedWork(s.h1, fleet.VolumeDelete)
		for _, d := range deletes {
			ref, _ := d.Subject.Volume()
			if ref != order.Disks[0].Disk && ref != order.Disks[1].Disk || d.VolumeUsers.Disk != "" || !d.Args.DeleteDisks {
				t.Errorf("%+v is deleted, held by %+v", ref, d.VolumeUsers)
			}
		}
		if len(deletes) == 2 {
			break
		}
		if len(deletes) != 0 {
			t.Fatalf("%d files are deleted", len(deletes))
		}
	}
	if n := s.countRows("left_disks"); n != 0 {
		t.Errorf("%d disks are left behind", n)
	}
}

func TestFailedMigrationLeavesVMOnSource(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("web")
	stays := func(when string) {
		t.Helper()
		if now := s.getVM(v.ID); now.HostID != s.h1 || now.Spec.Disks[0].Ref() != v.Spec.Disks[0].Ref() || now.Status.Error != "" || now.Attention {
			t.Fatalf("%s it is on %s with %+v: %q", when, now.HostName, now.Spec.Disks, now.Status.Error)
		}
	}
	dropped := func(n int) {
		t.Helper()
		got := s.claimedWork(s.h2, fleet.VolumeDelete)
		for _, w := range got {
			s.finishJobWith(s.h2, w, wire.Finish{Outcome: wire.Done})
		}
		if len(got) != n {
			t.Errorf("%d copies are deleted, want %d", len(got), n)
		}
	}
	// Cancel a migration after the target host has received all disks.
	task := s.migrateToH2(v)
	w := s.claimOnlyJob(s.h1, fleet.VMMigrate)
	s.finishReceiveJobs(2)
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Fatal(err)
	}
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Cancelled, Generation: w.Generation, Error: "Cancelled by chief.", VM: v.Status})
	stays("taken back")
	dropped(2)

	// The source host reports success before the target host has received all disks.
	s.migrateToH2(v)
	w = s.claimOnlyJob(s.h1, fleet.VMMigrate)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: v.Status})
	stays("without its disks")

	// The receive jobs end after the source host's job has failed.
	s.migrateToH2(v)
	w = s.claimOnlyJob(s.h1, fleet.VMMigrate)
	late := s.claimedWork(s.h2, fleet.VolumeReceive)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Failed, Generation: w.Generation, Error: "Input/output error", VM: v.Status})
	for _, in := range late {
		s.finishVolume(s.h2, in, `{}`)
	}
	stays("after a failure")
	dropped(len(late))

	// A deletion of the VM during the migration cancels the migration, and the VM is deleted on its host.
	s.migrateToH2(v)
	w = s.claimOnlyJob(s.h1, fleet.VMMigrate)
	if _, err := s.DeleteVM(t.Context(), chief, v.ID, true, "web"); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Progress(t.Context(), s.agents[s.h1], w.ID, wire.Progress{Epoch: w.Epoch})
	if err != nil || answer.Stop == "" {
		t.Errorf("the host hears %+v %v", answer, err)
	}
}

func TestUnsuitableMigrationTargetsHaveReasons(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("web")
	targets, err := s.MigrationTargets(t.Context(), chief, v.ID)
	if err != nil || len(targets) != 2 { // the pools nfs and local, on h2
		t.Fatalf("%+v %v", targets, err)
	}
	for _, target := range targets {
		if target.HostID != s.h2 || !target.Allowed || target.PoolName == "" {
			t.Errorf("%+v", target)
		}
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"paused"') WHERE id = $1`, v.ID)
	if targets, err := s.MigrationTargets(t.Context(), chief, v.ID); err != nil || len(targets) != 2 || targets[0].Allowed || !strings.Contains(targets[0].Reason, "Only a running or a stopped VM") {
		t.Errorf("the targets of a paused VM are %+v, %v", targets, err)
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"stopped"') WHERE id = $1`, v.ID)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,poolId}', to_jsonb($2::text)) WHERE id = $1`, v.ID, s.nfs)
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1 AND host_id = $2`, s.local, s.h2)
	s.wantRefused("into a pool that does not exist", fleet.Invalid, "not assigned to h2", func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
		return err
	})

	// A disk in a shared pool of both hosts is not sent.
	task, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2, PoolID: s.nfs})
	if err != nil {
		t.Fatal(err)
	}
	order := s.claimOnlyJob(s.h1, fleet.VMMigrate).Args.Migrate
	if len(order.Stay) != 1 || len(order.Disks) != 1 || order.Disks[0].To.PoolID != s.nfs || order.Stay[0].Volume != v.Spec.Disks[0].Volume {
		t.Errorf("%s: %+v", task.ID, order)
	}
}

func TestColdMigrationOfAdoptedVMSendsItsDefinition(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("legacy")
	s.execSQL(`UPDATE vms SET adoption = '{"at":"2026-01-01T00:00:00Z","verbatim":["sound"]}' WHERE id = $1`, v.ID)
	migrate := func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
		return err
	}
	const update = `UPDATE hosts SET status = jsonb_set(status, '{inventory,receivesDefinitions}', 'true') WHERE id = $1`
	s.execSQL(update, s.h1)
	s.wantRefused("a target with an older agent", fleet.Invalid, "The agent of h2 is too old to receive the definition", migrate)
	s.execSQL(update, s.h2)
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,receivesDefinitions}' WHERE id = $1`, s.h1)
	s.wantRefused("a source with an older agent", fleet.Invalid, "The agent of h1 is too old to send the definition", migrate)
	s.execSQL(update, s.h1)
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{unmigratable}', '"Its definition has a host device (element hostdev), which Quantix does not migrate."') WHERE id = $1`, v.ID)
	s.wantRefused("a VM with an element that stays", fleet.Conflict, "element hostdev", migrate)
	s.execSQL(`UPDATE vms SET status = status - 'unmigratable' WHERE id = $1`, v.ID)
	if err := migrate(); err != nil {
		t.Fatal(err)
	}
	order := s.claimOnlyJob(s.h1, fleet.VMMigrate).Args.Migrate
	if !order.Definition || order.Firmware == "" || len(order.Transfers()) != len(order.Disks)+1 {
		t.Errorf("the source host gets %+v, want a transfer of the definition", order)
	}
	there := s.claimedByKind(s.h2)[fleet.VMFirmwareReceive]
	if len(there) != 1 || there[0].VM == nil || there[0].VM.ID != v.ID || !there[0].Args.Migrate.Definition {
		t.Fatalf("the target host gets %+v, want the VM with the definition's transfer", there)
	}
	if there[0].Mark != "" {
		t.Error("the target host gets the ownership mark of a VM that is on another host")
	}
	if to := order.Disks[0].To.PoolID; !slices.ContainsFunc(there[0].Pools, func(p fleet.Pool) bool { return p.ID == to }) {
		t.Errorf("the target host gets the pools %+v, want %s", there[0].Pools, to)
	}
}

// firmwareVMToMigrate is vmToMigrate with UEFI. Both hosts have UEFI, and h2's agent moves firmware state.
func (s *libraryFixture) firmwareVMToMigrate(name string) fleet.VMView {
	s.t.Helper()
	v := s.vmToMigrate(name)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{firmware}', '"uefi"') WHERE id = $1`, v.ID)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,firmwares}', '["bios","uefi"]'), '{inventory,receivesFirmware}', 'true')`)
	return s.getVM(v.ID)
}

// claimedByKind claims the host's jobs.
func (s *libraryFixture) claimedByKind(host fleet.HostID) map[fleet.JobKind][]wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), s.agents[host], wire.ClaimRequest{Max: 16}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[fleet.JobKind][]wire.Work{}
	for _, w := range claim.Jobs {
		out[w.Kind] = append(out[w.Kind], w)
	}
	return out
}

// beginFirmwareMigration requests the VM's migration to h2, whose disks arrive. It returns the source's job and the job
// that receives the firmware state.
func (s *libraryFixture) beginFirmwareMigration(v fleet.VMView) (task fleet.Task, source, target wire.Work) {
	s.t.Helper()
	task = s.migrateToH2(v)
	source = s.claimOnlyJob(s.h1, fleet.VMMigrate)
	there := s.claimedByKind(s.h2)
	if len(there[fleet.VMFirmwareReceive]) != 1 || len(there[fleet.VolumeReceive]) != 2 {
		s.t.Fatalf("the target has the jobs %+v", there)
	}
	target = there[fleet.VMFirmwareReceive][0]
	if target.VM != nil || target.Mark != "" {
		s.t.Error("the target of a firmware state gets the VM")
	}
	if source.Args.Migrate.Firmware == "" || target.Args.Migrate.Firmware != source.Args.Migrate.Firmware || target.Subject != fleet.SubjectVM(v.ID) {
		s.t.Fatalf("the jobs have %+v and %+v", source.Args.Migrate, target.Args.Migrate)
	}
	for _, w := range there[fleet.VolumeReceive] {
		s.finishVolume(s.h2, w, `{}`)
	}
	return task, source, target
}

func TestColdMigrationSwitchesHostAfterFirmwareStateArrived(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.firmwareVMToMigrate("web")
	for _, arrives := range []bool{false, true} {
		_, source, target := s.beginFirmwareMigration(v)
		if arrives {
			s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done})
		}
		s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Done, Generation: source.Generation, VM: &fleet.VMStatus{Power: fleet.Absent}})
		if now := s.getVM(v.ID); (now.HostID == s.h2) != arrives {
			t.Fatalf("the VM is on %s; the firmware state has arrived: %v", now.HostName, arrives)
		}
		if arrives {
			break
		}
		s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Failed, Error: "lost"})
		s.execSQL(`UPDATE vms SET status = $2 WHERE id = $1`, v.ID, v.Status)
	}
	if there := s.claimedByKind(s.h2); len(there[fleet.VMApply]) != 1 || len(there[fleet.VMFirmwareDiscard]) != 0 {
		t.Errorf("the new host has the jobs %+v", there)
	}
}

func TestFailedMigrationDiscardsFirmwareState(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.firmwareVMToMigrate("web")
	for when, sourceFirst := range map[string]bool{"the source fails after the arrival": false, "the state arrives after the failure": true} {
		task, source, target := s.beginFirmwareMigration(v)
		ends := []func(){
			func() { s.finishJobWith(s.h2, target, wire.Finish{Outcome: wire.Done}) },
			func() {
				s.finishJobWith(s.h1, source, wire.Finish{Outcome: wire.Failed, Generation: source.Generation, Error: "Input/output error", VM: v.Status})
			},
		}
		if sourceFirst {
			slices.Reverse(ends)
		}
		for _, end := range ends {
			end()
		}
		there := s.claimedByKind(s.h2)
		if len(there[fleet.VMFirmwareDiscard]) != 1 || len(there[fleet.VolumeDelete]) != 2 {
			t.Fatalf("%s: the target has the jobs %+v", when, there)
		}
		discard := there[fleet.VMFirmwareDiscard][0]
		if discard.Args.Migrate.Firmware != target.Args.Migrate.Firmware || discard.Subject != fleet.SubjectVM(v.ID) {
			t.Errorf("%s: the target discards %+v", when, discard.Args.Migrate)
		}
		for _, w := range append(there[fleet.VolumeDelete], discard) {
			s.finishJobWith(s.h2, w, wire.Finish{Outcome: wire.Done})
		}
		if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobFailed {
			t.Errorf("%s: %+v %v", when, got, err)
		}
		if now := s.getVM(v.ID); now.HostID != s.h1 || now.Status.Error != "" {
			t.Errorf("%s: the VM is on %s: %q", when, now.HostName, now.Status.Error)
		}
	}
}

func TestHostWithOldAgentReceivesNoFirmwareState(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.firmwareVMToMigrate("web")
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,receivesFirmware}' WHERE id = $1`, s.h2)
	s.wantRefused("an agent that cannot receive the state", fleet.Invalid, "too old to receive UEFI variables", func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
		return err
	})
	plans, err := s.PlanMigrations(t.Context(), chief, []fleet.VMID{v.ID})
	if err != nil || len(plans) != 1 || plans[0].Reason != "" || plans[0].Best != nil || !strings.Contains(plans[0].Targets[0].Reason, "Update the agent") {
		t.Errorf("the plan is %+v %v", plans, err)
	}
}
