package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestFailedVMCreationCancelsQueuedStart(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.queueVMJob(id, fleet.VMStart)
	w := r.claimJobs()[0]
	errText := "Cannot access storage file '/nope'"
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Failed, Error: errText}); err != nil {
		t.Fatal(err)
	}
	if state := queryValue[string](r, `SELECT state FROM jobs WHERE kind = 'vm.start'`); state != "cancelled" {
		t.Fatalf("the start is %s", state)
	}
	if got := queryValue[string](r, `SELECT status->>'error' FROM vms`); got != errText {
		t.Fatalf("the VM says %q", got)
	}
}

// A task's note names devices with a pending unplug. The VM's status lists such a device until the guest releases it.
func TestTaskNoteNamesPendingUnplugs(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	remark := func() string {
		return fleet.Task{
			State: queryValue[fleet.JobState](r, `SELECT state FROM tasks WHERE kind = 'vm.apply' ORDER BY id DESC LIMIT 1`),
			Note:  queryValue[string](r, `SELECT note FROM tasks WHERE kind = 'vm.apply' ORDER BY id DESC LIMIT 1`),
		}.Remark()
	}
	w := r.claimJobs()[0]
	r.execSQL(`UPDATE jobs SET note = 'writing the definition'`)
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil || remark() != "" {
		t.Fatalf("a task without pending unplugs has the note %q, %v", remark(), err)
	}
	r.execSQL(`UPDATE vms SET generation = 2 WHERE id = $1`, id)
	r.queueVMJob(id, fleet.VMApply)
	pending := fleet.VMStatus{
		Power: fleet.Running, NextBoot: []string{"nics"}, PendingUnplug: []fleet.PendingUnplug{{Field: "nics", What: "NIC 52:54:00:00:00:01"}},
	}
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: &pending}); err != nil || remark() != "The guest did not release NIC 52:54:00:00:00:01; it is removed at the next start." {
		t.Fatalf("the task ends with %q, %v", remark(), err)
	}
	list := func() []string {
		t.Helper()
		page, err := r.ListVMs(t.Context(), fleet.SystemActor, fleet.Query{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, vm := range page.Items {
			out = append(out, vm.NextStartChanges()...)
		}
		return out
	}
	if got := list(); len(got) != 1 || got[0] != "NIC 52:54:00:00:00:01 (the guest has not released it)" {
		t.Errorf("the list says %q", got)
	}
	r.reportState("d1", wire.VMReport{ID: id, Generation: 2, Status: fleet.VMStatus{Power: fleet.Running}})
	if got := list(); len(got) != 0 {
		t.Errorf("after the guest has released the device: %q", got)
	}
}

func TestJobFinishRequeuesVMWhenGenerationIsNewer(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	w := r.claimJobs()[0]
	r.execSQL(`UPDATE vms SET generation = 2 WHERE id = $1`, id)
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	if again := r.claimJobs(); len(again) != 1 || again[0].Generation != 2 {
		t.Fatalf("claimed %+v, want generation 2", again)
	}
}

func TestFailedDeletionRestoresVM(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.execSQL(`UPDATE vms SET deleted_at = now()`)
	r.execSQL(`UPDATE jobs SET kind = 'vm.delete'`)
	w := r.claimJobs()[0]
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Failed, Error: "device busy"}); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM vms WHERE deleted_at IS NULL`); n != 1 {
		t.Fatal("a failed deletion left the VM as deleting")
	}
	r.execSQL(`UPDATE vms SET deleted_at = now()`)
	r.queueVMJob(id, fleet.VMDelete)
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}}); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM vms`); n != 0 {
		t.Fatal("the VM is still there")
	}
}

func TestLateJobResultDoesNotOverwriteNewerReport(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	w := r.claimJobs()[0]
	seqOfResult := r.nextSeq()
	r.reportState("d1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, Seq: seqOfResult, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "d1"})
	if err != nil || !answer.Resend {
		t.Fatalf("answer %+v, %v: the portal must ask for the whole state again", answer, err)
	}
	if power := queryValue[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("the VM is %s", power)
	}
}

func TestEditCancelledByFailedDeletionIsRequeued(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	stopped := &fleet.VMStatus{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128}
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: stopped}); err != nil {
		t.Fatal(err)
	}
	cannot := func() wire.FinishAnswer {
		t.Helper()
		if _, err := r.DeleteVM(t.Context(), fleet.SystemActor, id, false, ""); err != nil {
			t.Fatal(err)
		}
		w := r.claimJobs()[0]
		answer, _, err := r.Finish(t.Context(), r.agent, w.ID, wire.Finish{
			Epoch: w.Epoch, Generation: w.Generation, Seq: r.nextSeq(), Outcome: wire.Failed, Error: "device busy", VM: stopped,
		})
		if err != nil || w.Kind != fleet.VMDelete {
			t.Fatalf("%s: %v", w.Kind, err)
		}
		return answer
	}
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: *stopped})
	if answer := cannot(); answer.Requeued {
		t.Error("without an edit, there is nothing to do again")
	}

	r.execSQL(`UPDATE vms SET spec = spec || '{"firmware":"bios"}'`)
	vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
	if err != nil {
		t.Fatal(err)
	}
	_, edit, err := r.UpdateVM(t.Context(), fleet.SystemActor, id, editedSpec(vm, func(s *fleet.VMSpec) { s.CPUs = 2 }))
	if err != nil {
		t.Fatal(err)
	}
	if answer := cannot(); !answer.Requeued {
		t.Error("the edit before the failed deletion is not queued again")
	}
	if got := queryValue[string](r, `SELECT state || ': ' || error FROM jobs WHERE id = $1`, edit); got != "cancelled: Not done: the deletion of the VM was requested." {
		t.Errorf("the edit's task is %s", got)
	}
	again := r.claimJobs()
	if len(again) != 1 || again[0].Kind != fleet.VMApply || again[0].VM.Spec.CPUs != 2 {
		t.Fatalf("claimed %+v, want the edit", again)
	}
	if err := r.finishJob(again[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped, CPUs: 2}}); err != nil {
		t.Fatal(err)
	}
	if vm, err := r.GetVM(t.Context(), fleet.SystemActor, id); err != nil || vm.Phase != fleet.PhaseStopped {
		t.Errorf("%+v, %v", vm, err)
	}
}
