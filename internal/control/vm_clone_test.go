package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (s *libraryFixture) failJob(host fleet.HostID, w wire.Work, words string) {
	s.t.Helper()
	s.finishJobWith(host, w, wire.Finish{Outcome: wire.Failed, Error: words, Generation: 1})
}

// The source VM's host copies the disks, and defines the clone only when the copies are complete. The host must not
// create an empty disk in place of a missing copy.
func TestCloneVMWaitsForDiskCopies(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	clone, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web-2", From: &control.VMSource{VMID: vm.ID, PoolID: s.nfs}})
	if err != nil {
		t.Fatal(err)
	}
	now := s.getVM(clone.ID)
	if now.HostID != s.h1 || len(now.Spec.Disks) != 2 || now.Spec.Disks[0].PoolID != s.nfs || now.Spec.Disks[0].Volume == vm.Spec.Disks[0].Volume || now.Spec.CPUs != vm.Spec.CPUs {
		t.Errorf("%+v", now.Spec)
	}
	if works := s.claimedWork(s.h1, fleet.VMApply); len(works) != 0 {
		t.Error("the clone is defined before its disks are complete")
	}
	s.execSQL(`UPDATE jobs SET state = 'queued', epoch = 0, attempt = 0 WHERE state = 'running'`)
	works := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(works) != 2 {
		t.Fatalf("%+v", works)
	}
	for i, w := range works {
		ref, _ := w.Subject.Volume()
		o := w.Args.Volume
		if ref != now.Spec.Disks[i].Ref() || o.Source != vm.Spec.Disks[i].Volume || !o.Flatten || (o.SourcePool == s.local) != (i == 0) {
			t.Errorf("%s %+v", w.Subject, o)
		}
	}
	s.wantRefused("deleted while a disk is copied", fleet.Conflict, "is being copied", func() error { _, err := s.DeleteVM(t.Context(), s.member, clone.ID, false, ""); return err })
	again := func(name string) error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: name, From: &control.VMSource{VMID: vm.ID}})
		return err
	}
	if err := again("web-3"); err != nil {
		t.Errorf("a second clone at the same time: %v", err)
	}
	s.finishVolume(s.h1, works[0], `{}`)
	s.failJob(s.h1, works[1], "No space left on device")
	made := s.claimedWork(s.h1, fleet.VMApply)
	// The job lists both disks as created. The host therefore reports the second one as missing instead of creating it
	// empty.
	if len(made) != 1 || len(made[0].CreatedDisks) != 2 {
		t.Fatalf("%+v", made)
	}
	s.failJob(s.h1, made[0], "disk 2 is not there")
	tasks, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "target:vm:" + string(clone.ID)})
	if err != nil || len(tasks.Items) != 1 || tasks.Items[0].State != fleet.JobFailed || !strings.Contains(tasks.Items[0].Error, "No space left") {
		t.Errorf("%+v %v", tasks.Items, err)
	}
	if _, err := s.DeleteVM(t.Context(), s.member, clone.ID, true, "web-2"); err != nil {
		t.Error(err)
	}
	if gone := s.claimedWork(s.h1, fleet.VMDelete); len(gone) != 1 { // the copied disks are deleted too
		t.Errorf("%+v", gone)
	}
}

func TestInvalidCloneRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	elsewhere := s.addProjectMember("eve", s.blue, fleet.RoleMember)
	elsewhere.Projects[s.red] = fleet.RoleViewer
	spec := func(disks ...fleet.Disk) fleet.VMSpec {
		out := smallSpec
		out.Disks = disks
		return out
	}
	ask := func(a fleet.Actor, project fleet.ProjectID, in control.CreateVM) func() error {
		in.ProjectID, in.Name = project, "clone"
		if in.From == nil {
			in.From = &control.VMSource{VMID: vm.ID}
		}
		return func() error { _, err := s.CreateVM(t.Context(), a, in); return err }
	}
	image, _ := s.publishImage(s.nfs, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		do   func() error
	}{
		{"by a user of another project", fleet.Invalid, "no such VM", ask(s.blueMember, s.blue, control.CreateVM{})},
		{"into another project, by a viewer", fleet.Forbidden, "do not have permission", ask(elsewhere, s.blue, control.CreateVM{})},
		{"into a project that one may not change", fleet.NotFound, "no such", ask(s.member, s.blue, control.CreateVM{})},
		{"on another host", fleet.Invalid, "Disks are copied on the host of the VM", ask(s.member, s.red, control.CreateVM{HostID: s.h2})},
		{"with fewer disks", fleet.Invalid, "and each is copied", ask(s.member, s.red, control.CreateVM{Spec: spec()})},
		{"with more disks", fleet.Invalid, "and each is copied", ask(s.member, s.red, control.CreateVM{Spec: spec(fleet.Disk{PoolID: s.nfs}, fleet.Disk{PoolID: s.nfs})})},
		{"with an image", fleet.Invalid, "cannot have another source", ask(s.member, s.red, control.CreateVM{Spec: spec(fleet.Disk{PoolID: s.nfs, ImageID: image})})},
		{"with another VM's volume", fleet.Invalid, "cannot have another source", ask(s.member, s.red, control.CreateVM{Spec: spec(fleet.Disk{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "a.qcow2"}})})},
		{"into a pool that does not exist", fleet.Invalid, "", ask(s.member, s.red, control.CreateVM{From: &control.VMSource{VMID: vm.ID, PoolID: fleet.NewID[fleet.PoolID]()}})},
	} {
		s.wantRefused(c.name, c.code, c.says, c.do)
	}
	s.execSQL(`UPDATE vms SET status = '{"power":"absent"}' WHERE id = $1`, vm.ID)
	s.wantRefused("absent", fleet.Conflict, "not on its host", ask(s.member, s.red, control.CreateVM{}))
	s.execSQL(`UPDATE vms SET status = '{"power":"stopped"}', spec = jsonb_set(spec, '{disks,0,existing}', 'true') WHERE id = $1`, vm.ID)
	s.wantRefused("a LUN", fleet.Conflict, "is a LUN, so", ask(s.member, s.red, control.CreateVM{}))
	s.execSQL(`UPDATE vms SET spec = spec #- '{disks,0,existing}' WHERE id = $1`, vm.ID)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	s.wantRefused("of a host that is offline", fleet.Conflict, "offline", ask(s.member, s.red, control.CreateVM{}))
}

// A VM can be created from a snapshot of a running VM. The host copies the disks in their state at the snapshot.
// Changes of the snapshots are refused until the copies are complete.
func TestCreateVMFromSnapshotCopiesSnapshotState(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"running"') WHERE id = $1`, vm.ID)
	base, tip := s.reportTwoSnapshots(s.getVM(vm.ID)) // the snapshots are of the first disk only; the second disk was added later
	ask := func(a fleet.Actor, from control.VMSource) func() error {
		return func() error {
			_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: "then", From: &from})
			return err
		}
	}
	s.wantRefused("a snapshot without its VM", fleet.Invalid, "Name a template, a VM or an appliance", ask(s.member, control.VMSource{SnapshotID: base}))
	s.wantRefused("an unknown snapshot", fleet.NotFound, "no such snapshot", ask(s.member, control.VMSource{VMID: vm.ID, SnapshotID: fleet.NewID[fleet.SnapshotID]()}))
	s.wantRefused("by a user of another project", fleet.NotFound, "", ask(s.blueMember, control.VMSource{VMID: vm.ID, SnapshotID: base}))
	for _, from := range []fleet.PoolID{"", s.nfs} { // h2 has the shared pool too, but not the VM's disks
		p, err := s.PreviewVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "then", From: &control.VMSource{VMID: vm.ID, SnapshotID: base, PoolID: from}})
		if err != nil || !p.Placed || p.Host != "h1" || len(p.Spec.Disks) != 1 || p.Spec.Disks[0].SizeBytes != 1<<20 {
			t.Errorf("the preview says %+v %v", p, err)
		}
	}
	made, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "then", From: &control.VMSource{VMID: vm.ID, SnapshotID: base, PoolID: s.nfs}})
	if err != nil {
		t.Fatal(err)
	}
	now := s.getVM(made.ID)
	if now.HostID != s.h1 || len(now.Spec.Disks) != 1 || now.Spec.Disks[0].PoolID != s.nfs || now.Spec.CPUs != vm.Spec.CPUs {
		t.Errorf("%+v", now.Spec)
	}
	works := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(works) != 1 {
		t.Fatalf("%+v", works)
	}
	if o := works[0].Args.Volume; o.Source != vm.Spec.Disks[0].Volume || !o.Flatten || o.SourcePool != s.local || o.Snapshot == nil || *o.Snapshot != (fleet.SnapshotRef{VMID: vm.ID, ID: base}) {
		t.Errorf("%+v", o)
	}
	for what, do := range map[string]func() error{
		"deleted": func() error { _, err := s.DeleteSnapshot(t.Context(), chief, vm.ID, base, false); return err },
		"gone back": func() error {
			_, err := s.RevertSnapshot(t.Context(), chief, vm.ID, tip, control.RevertSnapshot{})
			return err
		},
		"the VM": func() error { _, err := s.DeleteVM(t.Context(), chief, vm.ID, true, "web"); return err },
	} {
		s.wantRefused(what+" while it is copied", fleet.Conflict, "being copied", do)
	}
	if _, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "then-too", From: &control.VMSource{VMID: vm.ID, SnapshotID: tip}}); err != nil {
		t.Errorf("another reads the snapshots, too: %v", err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done' WHERE kind = 'volume.copy'`)
	if _, err := s.DeleteSnapshot(t.Context(), chief, vm.ID, base, false); err != nil {
		t.Errorf("after the copy: %v", err)
	}
	s.wantRefused("a VM from a snapshot that is being deleted", fleet.Conflict, "under way", ask(s.member, control.VMSource{VMID: vm.ID, SnapshotID: tip}))
}
