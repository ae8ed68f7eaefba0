package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
	"quantix/internal/vmedit"
	"quantix/internal/wire"
)

// runningVM returns a running VM on h1 with one disk in the local pool and one in the shared pool.
func (s *libraryFixture) runningVM(name string) fleet.VMView {
	s.t.Helper()
	vm := s.stoppedVM(name, fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"running"') WHERE id = $1`, vm.ID)
	return s.getVM(vm.ID)
}

func (s *libraryFixture) cloneVM(vm fleet.VMView, name string) fleet.VMView {
	s.t.Helper()
	clone, err := s.CreateVM(s.t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: name, From: &control.VMSource{VMID: vm.ID}})
	if err != nil {
		s.t.Fatal(err)
	}
	return clone
}

// finishTemporarySnapshot finishes the job for the VM's temporary snapshot and returns the snapshot's id.
func (s *libraryFixture) finishTemporarySnapshot(vm fleet.VMView) fleet.SnapshotID {
	s.t.Helper()
	works := s.claimedWork(s.h1, fleet.VMSnapshot)
	if len(works) != 1 {
		s.t.Fatalf("%+v", works)
	}
	o := works[0].Args.Snapshot
	if sub := works[0].Subject; sub != fleet.SubjectVM(vm.ID) || !o.Quiesce || o.Memory || o.ID == "" {
		s.t.Errorf("%s %+v", sub, o)
	}
	status := *s.getVM(vm.ID).Status
	status.Snapshots = &fleet.SnapshotTree{Current: o.ID, Snapshots: []fleet.Snapshot{{ID: o.ID, Name: o.Name, Disks: []fleet.Volref{vm.Spec.Disks[0].Ref(), vm.Spec.Disks[1].Ref()}}}}
	s.finishJobWith(s.h1, works[0], wire.Finish{Outcome: wire.Done, VM: &status, Generation: vm.Generation})
	return o.ID
}

// deleteTemporarySnapshots makes the checks of all temporary snapshots due and runs the pass.
func (s *libraryFixture) deleteTemporarySnapshots() {
	s.t.Helper()
	s.execSQL(`UPDATE temporary_snapshots SET look_at = now()`)
	if err := s.DeleteTemporarySnapshots(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

func (s *libraryFixture) temporarySnapshots() string {
	return queryText(s.projectFixture, `SELECT count(*)::text FROM temporary_snapshots`)
}

func TestCloneOfRunningVMUsesTemporarySnapshot(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.runningVM("web")
	clone := s.cloneVM(vm, "web-clone")
	if now := s.getVM(clone.ID); now.HostID != s.h1 || now.Spec.Power != fleet.Stopped || len(now.Spec.Disks) != 2 {
		t.Errorf("%+v", now.Spec)
	}
	if works := s.claimedWork(s.h1, fleet.VolumeCopy); len(works) != 0 {
		t.Fatal("the disks are copied before the snapshot is taken")
	}
	s.execSQL(`UPDATE jobs SET state = 'queued', epoch = 0, attempt = 0 WHERE state = 'running'`)
	s.wantRefused("another clone meanwhile", fleet.Conflict, "are being copied from", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "other", From: &control.VMSource{VMID: vm.ID}})
		return err
	})
	shot := s.finishTemporarySnapshot(vm)
	copies := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(copies) != 2 {
		t.Fatalf("%+v", copies)
	}
	for i, w := range copies {
		if o := w.Args.Volume; o.Source != vm.Spec.Disks[i].Volume || !o.Flatten || o.Snapshot == nil || *o.Snapshot != (fleet.SnapshotRef{VMID: vm.ID, ID: shot}) {
			t.Errorf("%s %+v", w.Subject, o)
		}
	}
	if _, err := s.RequestPowerAction(t.Context(), s.member, vm.ID, fleet.ActStop); err != nil {
		t.Errorf("power off while disks are copied: %v", err)
	}
	if off := s.claimedWork(s.h1, fleet.VMStop); len(off) != 1 {
		t.Error("the power order waits for the copies")
	}
	s.deleteTemporarySnapshots()
	if works := s.claimedWork(s.h1, fleet.VMSnapshotDelete); len(works) != 0 {
		t.Fatal("the snapshot is deleted while disks are copied from it")
	}
	s.finishVolume(s.h1, copies[0], `{}`)
	s.failJob(s.h1, copies[1], "No space left on device")
	s.execSQL(`UPDATE jobs SET state = 'done' WHERE kind = 'vm.stop'`)
	if made := s.claimedWork(s.h1, fleet.VMApply); len(made) != 1 || len(made[0].CreatedDisks) != 2 {
		t.Errorf("%+v", made)
	}

	s.deleteTemporarySnapshots()
	gone := s.claimedWork(s.h1, fleet.VMSnapshotDelete)
	if len(gone) != 1 || gone[0].Subject != fleet.SubjectVM(vm.ID) || gone[0].Args.Snapshot.ID != shot {
		t.Fatalf("%+v", gone)
	}
	vm = s.getVM(vm.ID)
	left := *vm.Status
	s.finishJobWith(s.h1, gone[0], wire.Finish{Outcome: wire.Failed, Error: "QEMU gave up", VM: &left, Generation: vm.Generation})
	s.deleteTemporarySnapshots()
	if gone = s.claimedWork(s.h1, fleet.VMSnapshotDelete); len(gone) != 1 {
		t.Fatal("a deletion that failed is not tried again")
	}
	left.Snapshots = nil
	s.finishJobWith(s.h1, gone[0], wire.Finish{Outcome: wire.Done, VM: &left, Generation: vm.Generation})
	if s.deleteTemporarySnapshots(); s.temporarySnapshots() != "0" || len(s.claimedWork(s.h1, fleet.VMSnapshotDelete)) != 0 {
		t.Error("a snapshot that is gone is looked for still")
	}
}

func TestCloneFailsWhenTemporarySnapshotFails(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.runningVM("web")
	clone := s.cloneVM(vm, "web-clone")
	works := s.claimedWork(s.h1, fleet.VMSnapshot)
	status := *s.getVM(vm.ID).Status
	s.finishJobWith(s.h1, works[0], wire.Finish{Outcome: wire.Failed, Error: "The pool is full.", VM: &status, Generation: vm.Generation})
	if copies := s.claimedWork(s.h1, fleet.VolumeCopy); len(copies) != 0 {
		t.Errorf("%+v", copies)
	}
	if said := queryText(s.projectFixture, `SELECT error FROM jobs WHERE kind = 'volume.copy' LIMIT 1`); said != "The temporary snapshot was not taken, so nothing was copied: The pool is full." {
		t.Error(said)
	}
	if s.deleteTemporarySnapshots(); s.temporarySnapshots() != "0" || len(s.claimedWork(s.h1, fleet.VMSnapshotDelete)) != 0 {
		t.Error("a snapshot that was not taken is looked for still")
	}
	if _, err := s.DeleteVM(t.Context(), s.member, clone.ID, true, "web-clone"); err != nil {
		t.Error(err)
	}
}

func TestBulkClonesShareTemporarySnapshot(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.runningVM("web")
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	in := control.CreateVMs{CreateVM: control.CreateVM{ProjectID: s.red, Name: "web-{n}", From: &control.VMSource{VMID: vm.ID}}, BulkNames: vmedit.BulkNames{Count: 3}}
	if _, err := s.CreateVMs(t.Context(), s.member, in); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.finishTemporarySnapshot(vm)
	if copies := s.claimedWork(s.h1, fleet.VolumeCopy); len(copies) != 6 {
		t.Errorf("%d disks are copied", len(copies))
	}
	if s.temporarySnapshots() != "1" {
		t.Error(s.temporarySnapshots(), "snapshots")
	}
}

func TestCloneOfVMWithSnapshotsHasCurrentState(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	s.reportTwoSnapshots(vm)
	s.cloneVM(vm, "web-clone")
	if works := s.claimedWork(s.h1, fleet.VMSnapshot); len(works) != 1 {
		t.Errorf("%+v", works)
	}
}

func TestTemplateOfRunningVMUsesTemporarySnapshot(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.runningVM("web")
	if _, _, err := s.AddTemplate(t.Context(), s.member, control.NewTemplate{Name: "Web base", TemplateSource: control.TemplateSource{VMID: vm.ID}}); err != nil {
		t.Fatal(err)
	}
	if works := s.claimedWork(s.h1, fleet.VolumeCopy); len(works) != 0 {
		t.Fatal("the disks are copied before the snapshot is taken")
	}
	s.execSQL(`UPDATE jobs SET state = 'queued', epoch = 0, attempt = 0 WHERE state = 'running'`)
	shot := s.finishTemporarySnapshot(vm)
	copies := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(copies) != 2 || copies[0].Args.Volume.Snapshot == nil || copies[0].Args.Volume.Snapshot.ID != shot {
		t.Fatalf("%+v", copies)
	}
	for _, w := range copies {
		s.finishVolume(s.h1, w, `{}`)
	}
	s.deleteTemporarySnapshots()
	if works := s.claimedWork(s.h1, fleet.VMSnapshotDelete); len(works) != 1 {
		t.Errorf("%+v", works)
	}
}

func TestLinkedCloneOfVMRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.runningVM("web")
	spec := vmcopy.WithoutIdentity(vm.Spec)
	spec.Disks = []fleet.Disk{{PoolID: s.local, Overlay: true}, {PoolID: s.nfs}}
	s.wantRefused("a linked clone", fleet.Invalid, "full copy", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "linked", Spec: spec, From: &control.VMSource{VMID: vm.ID}})
		return err
	})
}

func TestCloneNameIsNextFreeName(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	for _, want := range []string{"web-clone", "web-clone-2", "web-clone-3"} {
		name, err := s.CloneName(t.Context(), s.member, vm.ID)
		if err != nil || name != want {
			t.Fatalf("%q, not %q: %v", name, want, err)
		}
		s.stoppedVM(name)
	}
	long := s.stoppedVM("a" + strings.Repeat("b", 62))
	if name, err := s.CloneName(t.Context(), s.member, long.ID); err != nil || len(name) > 63 || !strings.HasSuffix(name, "-clone") {
		t.Errorf("%q %v", name, err)
	}
}
