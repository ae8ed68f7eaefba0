package control_test

import (
	"slices"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const libvirtNoAnswerText = "libvirt did not answer"

func (r *hostFixture) finishWithRetry(w wire.Work) {
	r.t.Helper()
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Failed, Error: libvirtNoAnswerText, Retry: true}); err != nil {
		r.t.Fatal(err)
	}
}

// skipRetryDelay ends the retry delays of all queued jobs.
func (r *hostFixture) skipRetryDelay() {
	r.execSQL(`UPDATE jobs SET run_after = now() WHERE state = 'queued'`)
}

func TestJobRetriedAfterHypervisorTimeout(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("")
	var waits []time.Duration
	for range 9 { // more often than the limit of attempts
		work := r.claimJobs()
		if len(work) != 1 || work[0].Kind != fleet.VMApply {
			t.Fatalf("claimed %+v", work)
		}
		r.finishWithRetry(work[0])
		if again := r.claimJobs(); len(again) != 0 {
			t.Fatal("the job is retried without a delay")
		}
		vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
		if err != nil || vm.Phase != fleet.PhaseCreating || vm.Attention {
			t.Fatalf("the VM looks as if the job had ended: %+v %v", vm, err)
		}
		job, err := r.VMRetry(t.Context(), fleet.SystemActor, id)
		if err != nil || job == nil || job.RetryAt == nil || job.Error != libvirtNoAnswerText || job.State != fleet.JobQueued {
			t.Fatalf("the retried job is %+v %v", job, err)
		}
		waits = append(waits, queryValue[time.Duration](r, `SELECT run_after - now() FROM jobs`).Round(5*time.Second))
		r.skipRetryDelay()
	}
	want := []time.Duration{
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
	}
	if !slices.Equal(waits, want) {
		t.Errorf("the delays are %v, want %v", waits, want)
	}
	last := r.claimJobs()[0]
	// Simulate the first crash of an agent while it runs the job.
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if again := r.claimJobs(); len(again) != 1 || again[0].ID != last.ID {
		t.Fatalf("retries because of the hypervisor count against the attempt limit: %+v", again)
	}
}

func TestJobRetriedAtOnceWhenHypervisorReturns(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	r.finishWithRetry(r.claimJobs()[0])
	r.reportState("still there") // the hypervisor was never lost, so the delay is not skipped
	if got := r.claimJobs(); len(got) != 0 {
		t.Fatalf("claimed %+v", got)
	}
	_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "blind", State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.claimJobs(); len(got) != 0 {
		t.Fatalf("claimed %+v", got)
	}
	woken := r.hub.Subscribe("jobs:" + string(r.agent.HostID))
	defer woken.Close()
	r.reportState("there again")
	select {
	case <-woken.C:
	case <-t.Context().Done():
	}
	if got := r.claimJobs(); len(got) != 1 {
		t.Fatalf("claimed %+v", got)
	}
}

func TestNewerRequestReplacesRetriedJob(t *testing.T) {
	r := newHostFixture(t)
	var seen []fleet.Phase
	id := r.createAndFinishVM("web", &seen)
	r.finishWithRetry(r.claimJobs()[0]) // the job that starts the VM
	r.appendPhase(id, &seen)
	if want := []fleet.Phase{fleet.PhaseCreating, fleet.PhaseStarting}; !slices.Equal(seen, want) {
		t.Fatalf("shown: %v, want %v", seen, want)
	}
	if _, err := r.RequestPowerAction(t.Context(), chief, id, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	stop := r.claimJobs()
	if len(stop) != 1 || stop[0].Kind != fleet.VMStop {
		t.Fatalf("claimed %+v", stop)
	}
	// A start is requested while the stop job is running. The stop job then fails, and is not retried because the start is
	// newer.
	r.execSQL(`UPDATE vms SET ordered = '', observed_generation = generation WHERE id = $1`, id)
	if _, err := r.RequestPowerAction(t.Context(), chief, id, fleet.ActStart); err != nil {
		t.Fatal(err)
	}
	r.finishWithRetry(stop[0])
	if start := r.claimJobs(); len(start) != 1 || start[0].Kind != fleet.VMStart {
		t.Fatalf("claimed %+v", start)
	}
}

func TestEditNotDelayedByRetriedJob(t *testing.T) {
	r := newHostFixture(t)
	var seen []fleet.Phase
	id := r.createAndFinishVM("web", &seen)
	r.finishWithRetry(r.claimJobs()[0])
	text := "the shop"
	if _, _, err := r.UpdateVM(t.Context(), fleet.SystemActor, id, control.UpdateVM{Description: &text}); err != nil {
		t.Fatal(err)
	}
	if next := r.claimJobs(); len(next) != 1 || next[0].Kind != fleet.VMStart {
		t.Fatalf("claimed %+v, want the start before the edit", next)
	}
}

func TestRetriedJobCanBeCancelled(t *testing.T) {
	r := newHostFixture(t)
	var seen []fleet.Phase
	id := r.createAndFinishVM("web", &seen)
	r.finishWithRetry(r.claimJobs()[0])
	job, err := r.VMRetry(t.Context(), fleet.SystemActor, id)
	if err != nil || job == nil {
		t.Fatalf("%+v %v", job, err)
	}
	if _, err := r.CancelTask(t.Context(), fleet.SystemActor, job.ID); err != nil {
		t.Fatal(err)
	}
	r.appendPhase(id, &seen)
	if want := []fleet.Phase{fleet.PhaseCreating, fleet.PhaseStarting, fleet.PhaseStopped}; !slices.Equal(seen, want) {
		t.Fatalf("shown: %v, want %v", seen, want)
	}
}

func TestSingleShotJobIsNotRetried(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil {
		t.Fatal(err)
	}
	r.queueVMJob(id, fleet.VMReset)
	r.finishWithRetry(r.claimJobs()[0])
	if state := queryValue[string](r, `SELECT state FROM jobs WHERE kind = 'vm.reset'`); state != "failed" {
		t.Fatalf("the reset is %s", state)
	}
}
