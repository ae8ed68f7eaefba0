package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// vmWithMissingDisk returns a VM in project red with two disks, the first reported as missing.
func (s *projectFixture) vmWithMissingDisk(name string) (fleet.VMView, fleet.Volref) {
	s.t.Helper()
	spec := smallSpec
	spec.Disks = []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30}, {PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"}}}
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	first, second := v.Spec.Disks[0].Ref(), v.Spec.Disks[1].Ref()
	intact := fleet.VMStatus{Power: fleet.Stopped, Disks: []fleet.DiskState{{Target: "vda", Volume: &first}, {Target: "vdb", Volume: &second}}}
	missing := fleet.VMStatus{
		Power: fleet.Stopped, Disks: []fleet.DiskState{{Target: "vda"}, {Target: "vdb", Volume: &second}},
		Faults: []fleet.Fault{{Code: fleet.FaultDisk, Disk: &first, Text: "Disk 1 is not on h1: /mnt/nfs/" + first.Volume}},
	}
	for _, status := range []fleet.VMStatus{intact, missing} {
		s.execSQL(`UPDATE vms SET observed_generation = generation, status = $2 WHERE id = $1`, v.ID, status)
	}
	return s.getVM(v.ID), first
}

func TestVMJobListsAlreadyCreatedDisks(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	a, b, foreign := fleet.Volref{PoolID: "p", Volume: "a.qcow2"}, fleet.Volref{PoolID: "p", Volume: "b.qcow2"}, fleet.Volref{PoolID: "p", Volume: "other.qcow2"}
	r.execSQL(`UPDATE vms SET spec = spec || '{"disks":[{"poolId":"p","volume":"a.qcow2"},{"poolId":"p","volume":"b.qcow2"}]}' WHERE id = $1`, id)
	job := r.claimJobs()[0]
	if len(job.CreatedDisks) != 0 || job.Project == "" {
		t.Fatalf("the job of a VM not yet created: %+v", job)
	}
	disks := func(refs ...*fleet.Volref) fleet.VMStatus {
		s := fleet.VMStatus{Power: fleet.Stopped}
		for _, ref := range refs {
			s.Disks = append(s.Disks, fleet.DiskState{Volume: ref})
		}
		return s
	}
	first := disks(&a, nil, &foreign)
	if err := r.finishJob(job, wire.Finish{Outcome: wire.Done, VM: &first}); err != nil {
		t.Fatal(err)
	}
	r.reportState("both", wire.VMReport{ID: id, Generation: 1, Status: disks(&a, &b)})
	r.reportState("none", wire.VMReport{ID: id, Generation: 1, Status: disks()}) // a disk that was reported once counts as created
	r.reportState("gone")
	r.queueVMJob(id, fleet.VMStart)
	if made := r.claimJobs()[0].CreatedDisks; len(made) != 2 || made[0] != a || made[1] != b {
		t.Fatalf("the job names these disks as created: %+v", made)
	}
}

func TestStartRefusedWhenDiskMissing(t *testing.T) {
	s := newProjectFixture(t)
	v, _ := s.vmWithMissingDisk("web")
	if !v.Attention {
		t.Error("the VM does not need attention")
	}
	s.wantRefused("start", fleet.Conflict, "Disk 1 is not on h1: /mnt/nfs/", func() error {
		_, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActStart)
		return err
	})
	err := func() error { _, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStart); return err }()
	if fleet.CodeOf(err) != fleet.Conflict || strings.Contains(err.Error(), "h1") || strings.Contains(err.Error(), "/mnt") || !strings.Contains(err.Error(), "Disk 1") {
		t.Errorf("a member gets: %v", err)
	}
	page, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: "attention:yes"})
	if err != nil || len(page.Items) != 1 || strings.Contains(page.Items[0].Status.Faults[0].Text, "h1") {
		t.Errorf("in a member's list: %+v %v", page.Items, err)
	}
	for a, words := range map[*fleet.Actor]string{&chief: "is not on h1", &s.member: "is missing on its host"} {
		o, err := s.Overview(t.Context(), *a)
		if err != nil || len(o.Attention) != 1 || !strings.Contains(o.Attention[0].Text, words) || o.VMsNeedingAttention != 1 {
			t.Errorf("the dashboard of %s: %+v %v", a.Name, o.Attention, err)
		}
	}
}

func TestDetachMissingDiskAllowsStart(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithMissingDisk("web")
	for name, who := range map[string]struct {
		fleet.Actor
		code fleet.ErrorCode
	}{"a viewer": {s.viewer, fleet.Forbidden}, "a user of another project": {s.blueMember, fleet.NotFound}} {
		s.wantRefused(name, who.code, "", func() error { _, _, err := s.DetachDisk(t.Context(), who.Actor, v.ID, disk); return err })
	}
	s.wantRefused("a disk that is not missing", fleet.Conflict, "is not missing", func() error {
		_, _, err := s.DetachDisk(t.Context(), chief, v.ID, v.Spec.Disks[1].Ref())
		return err
	})
	s.wantRefused("no disk", fleet.Conflict, "no disk", func() error {
		_, _, err := s.DetachDisk(t.Context(), chief, v.ID, fleet.Volref{PoolID: s.nfs, Volume: "x"})
		return err
	})
	now, task, err := s.DetachDisk(t.Context(), s.member, v.ID, disk)
	if err != nil || task == "" || len(now.Spec.Disks) != 1 || now.Generation != v.Generation+1 {
		t.Fatalf("%+v %q %v", now.Spec, task, err)
	}
	if s.countRows("audit WHERE action = 'vm.disk.detach'") != 1 {
		t.Error("the audit line lacks the person")
	}
	if ok, why := now.Allows(fleet.ActStart); !ok && !strings.Contains(why, "Only a stopped VM") {
		t.Errorf("a detached disk prevents the start: %s", why)
	}
}

func TestReplaceMissingDiskUsesNewName(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithMissingDisk("web")
	name := control.NewDiskName(v, fleet.Disk{})
	replace := func(a fleet.Actor, in control.NewDisk) error {
		_, _, err := s.ReplaceDisk(t.Context(), a, v.ID, disk, in)
		return err
	}
	for says, in := range map[string]control.NewDisk{
		"A disk name has letters, digits and . _ -": {Volume: "../x.qcow2"},
		"ends in .qcow2":          {Volume: "x.raw"},
		"The pool has or had":     {Volume: disk.Volume},
		"a volume with this name": {Volume: "debian.qcow2"},
		"never replaces data":     {Volume: v.Spec.Disks[1].Volume},
		"not made from an image":  {Volume: name, Clone: true},
		"at most 64 TiB":          {Volume: name, SizeBytes: 1 << 60},
		"a size above 0":          {Volume: name, SizeBytes: -1},
		"at most 200 characters":  {},
	} {
		s.wantRefused(says, fleet.Invalid, says, func() error { return replace(chief, in) })
	}
	s.wantRefused("a viewer", fleet.Forbidden, "", func() error { return replace(s.viewer, control.NewDisk{Volume: name}) })
	s.wantRefused("a user of another project", fleet.NotFound, "", func() error { return replace(s.blueMember, control.NewDisk{Volume: name}) })
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"inactive"}' WHERE noun = 'pool'`)
	s.wantRefused("an inactive pool", fleet.Invalid, "Pool nfs is inactive on h1", func() error { return replace(chief, control.NewDisk{Volume: name}) })
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"active"}' WHERE noun = 'pool'`)
	now, task, err := s.ReplaceDisk(t.Context(), s.member, v.ID, disk, control.NewDisk{Volume: name, SizeBytes: 2 << 30})
	if err != nil || task == "" || now.Spec.Disks[0] != (fleet.Disk{PoolID: s.nfs, Volume: name, SizeBytes: 2 << 30}) || now.Spec.Disks[1].Image == nil {
		t.Fatalf("%+v %q %v", now.Spec, task, err)
	}
	s.wantRefused("again", fleet.Conflict, "no disk", func() error { return replace(chief, control.NewDisk{Volume: "y.qcow2"}) })
}
