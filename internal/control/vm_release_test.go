package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestReleaseForgetsVM(t *testing.T) {
	s := newAdoptionFixture(t)
	vm := s.createVM("web", fleet.Running)
	s.execSQL(`DELETE FROM jobs`)
	task, err := s.ReleaseVM(t.Context(), chief, vm.ID)
	if err != nil || task.Kind != fleet.VMRelease {
		t.Fatalf("%+v %v", task, err)
	}
	w := s.claim(fleet.VMRelease)
	s.finish(w, wire.Finish{Outcome: wire.Failed, Error: "libvirt refused", VM: &fleet.VMStatus{Power: fleet.Running}})
	s.wantTaskState(task.ID, fleet.JobFailed, "libvirt refused")
	if v, err := s.GetVM(t.Context(), chief, vm.ID); err != nil || v.Phase == fleet.PhaseDeleting {
		t.Fatalf("after a failed release, the VM is %+v %v", v.Phase, err)
	}

	if task, err = s.ReleaseVM(t.Context(), chief, vm.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RequestPowerAction(t.Context(), chief, vm.ID, fleet.ActShutdown); err != nil {
		t.Fatal(err)
	}
	w = s.claim(fleet.VMRelease)
	s.finish(w, wire.Finish{VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 128}})
	s.wantTaskState(task.ID, fleet.JobDone, "")
	if _, err := s.GetVM(t.Context(), chief, vm.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the released VM: %v, want it gone", err)
	}
	if n := s.countRows("jobs WHERE state = 'queued'"); n != 0 {
		t.Errorf("%d jobs of the released VM are queued", n)
	}
	f, err := s.GetDiscoveredVM(t.Context(), chief, s.h1, vm.ID)
	if err != nil || f.Name != "web" || f.Status.Power != fleet.Running {
		t.Errorf("the released VM is discovered as %+v %v", f, err)
	}
}

func TestReleaseRefusedWhileTasksRun(t *testing.T) {
	s := newAdoptionFixture(t)
	vm := s.createVM("web", fleet.Running)
	if _, err := s.RequestPowerAction(t.Context(), chief, vm.ID, fleet.ActShutdown); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("open task", fleet.Conflict, `unfinished task "Shut down"`, func() error { _, err := s.ReleaseVM(t.Context(), chief, vm.ID); return err })
	s.wantRefused("member", fleet.Forbidden, "permission", func() error { _, err := s.ReleaseVM(t.Context(), s.member, vm.ID); return err })
}

func TestManyVMsReleasedWithResultEach(t *testing.T) {
	s := newAdoptionFixture(t)
	free, busy := s.createVM("free", fleet.Stopped), s.createVM("busy", fleet.Running)
	s.execSQL(`DELETE FROM jobs`)
	if _, err := s.RequestPowerAction(t.Context(), chief, busy.ID, fleet.ActShutdown); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET run_after = now() + interval '1 day'`)
	task, err := s.ReleaseVMs(t.Context(), chief, []fleet.VMID{free.ID, busy.ID, fleet.NewID[fleet.VMID]()})
	if err != nil || task.Kind != fleet.VMRelease || task.SubjectName != "3 VMs" {
		t.Fatalf("%+v %v", task, err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.finish(s.claim(fleet.VMRelease), wire.Finish{VM: &fleet.VMStatus{Power: fleet.Stopped, Domain: "free"}})
	got, err := s.GetTask(t.Context(), chief, task.ID)
	if err != nil || got.Steps == nil || got.Steps.Done != 1 || got.Steps.Refused != 2 {
		t.Errorf("the task is %+v %+v %v, want one VM released and two refused", got, got.Steps, err)
	}
	for words, want := range map[string]int{`unfinished task "Shut down"`: 1, "There is no such VM": 1} {
		if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error LIKE '%" + words + "%'"); n != want {
			t.Errorf("%d children with the error %q, want %d", n, words, want)
		}
	}
	s.wantRefused("twice", fleet.Conflict, "free is released already: ", func() error { _, err := s.ReleaseVM(t.Context(), chief, free.ID); return err })
	s.wantRefused("unknown", fleet.NotFound, "There is no such VM", func() error { _, err := s.ReleaseVM(t.Context(), chief, fleet.NewID[fleet.VMID]()); return err })
}
