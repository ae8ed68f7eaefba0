package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestClaimReturnsOneJobPerSubjectInOrder(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.queueVMJob(id, fleet.VMStart)
	other := r.addVM("db")
	first := r.claimJobs()
	if len(first) != 2 || first[0].Kind != fleet.VMApply || first[1].Kind != fleet.VMApply {
		t.Fatalf("claimed %+v, want the vm.apply of both VMs", first)
	}
	if got := r.claimJobs(); len(got) != 0 {
		t.Fatalf("claimed %+v while both subjects are busy", got)
	}
	if first[0].VM == nil || first[0].VM.Spec.MemoryMiB != 128 {
		t.Fatalf("the job came without its VM's newest spec: %+v", first[0])
	}
	for _, w := range first {
		if w.VM.ID == id {
			if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next := r.claimJobs(); len(next) != 1 || next[0].Kind != fleet.VMStart || next[0].VM.ID == other {
		t.Fatalf("claimed %+v, want the queued start", next)
	}
}

func TestWaitingClaimReturnsWhenJobQueued(t *testing.T) {
	r := newHostFixture(t)
	got := make(chan wire.Claim, 1)
	go func() {
		claim, err := r.Claim(t.Context(), r.agent, wire.ClaimRequest{Max: 1}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- claim
	}()
	r.addVM("web")
	if claim := <-got; len(claim.Jobs) != 1 {
		t.Fatalf("woke with %+v", claim)
	}
}

// The end of a job wakes the agent only if another job of its host is queued, possibly one for the same subject.
// Otherwise the agent would claim in vain.
func TestJobEndWakesAgentOnlyWhenJobsQueued(t *testing.T) {
	r := newHostFixture(t)
	woken := r.countWakeUps()
	wakes := func() bool {
		t.Helper()
		return slices.Contains(woken(), "jobs:"+string(r.agent.HostID))
	}
	end := func(w wire.Work) {
		t.Helper()
		if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
			t.Fatal(err)
		}
	}
	r.queueVMJob(r.addVM("web"), fleet.VMStart)
	first := r.claimJobs()
	if !wakes() {
		t.Error("a new job does not wake the agent")
	}
	if end(first[0]); !wakes() {
		t.Error("the end of the first job does not wake the agent for the queued start")
	}
	next := r.claimJobs()
	if end(next[0]); wakes() {
		t.Error("the end of the last job wakes the agent for nothing")
	}
}

// countWakeUps returns a function that returns the wake-up keys received after its previous call.
func (r *hostFixture) countWakeUps() func() []string {
	r.t.Helper()
	r.drainHub()
	sub := r.hub.Subscribe("jobs:*")
	r.t.Cleanup(sub.Close)
	return func() []string {
		r.t.Helper()
		r.drainHub()
		return sub.TakeKeys()
	}
}

func TestJobResultWithOldEpochRefused(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	old := r.claimJobs()[0]
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	again := r.claimJobs()[0]
	if again.ID != old.ID || again.Epoch <= old.Epoch {
		t.Fatalf("the lapsed job came back as %+v, was %+v", again, old)
	}
	wantCode(t, r.finishJob(old, wire.Finish{Outcome: wire.Done}), fleet.Conflict)
	if err := r.finishJob(again, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	if gen := queryValue[int64](r, `SELECT observed_generation FROM vms WHERE id = $1`, id); gen != 1 {
		t.Fatalf("observed generation %d", gen)
	}
}

func TestJobFailsAfterFiveAttempts(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	for range 5 {
		if len(r.claimJobs()) != 1 {
			t.Fatal("the job was not given again")
		}
		r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
		if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if state := queryValue[string](r, `SELECT state FROM jobs`); state != "failed" {
		t.Fatalf("state %s", state)
	}
}

func TestReportsRenewJobLeasesAndReturnLostLeases(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	w := r.claimJobs()[0]
	r.execSQL(`UPDATE jobs SET lease_until = now() + interval '1 second'`)
	answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Leases: []wire.Lease{{ID: w.ID, Epoch: w.Epoch}, {ID: "gone", Epoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]fleet.JobID{"gone"}, answer.Lost); diff != "" {
		t.Fatal(diff)
	}
	if !queryValue[bool](r, `SELECT lease_until > now() + interval '20 seconds' FROM jobs`) {
		t.Fatal("the lease was not renewed")
	}
}

func TestDriftPassRequeuesLostJobs(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Stopped}})
	r.execSQL(`DELETE FROM jobs`)
	r.execSQL(`UPDATE vms SET generation = 3`)
	for range 2 {
		if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if work := r.claimJobs(); len(work) != 1 || work[0].Generation != 3 {
		t.Fatalf("claimed %+v", work)
	}
}

func TestForceOffAbortsRunningShutdown(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	r.execSQL(`DELETE FROM jobs`)
	admin := fleet.SystemActor
	if _, err := r.RequestPowerAction(t.Context(), admin, id, fleet.ActShutdown); err != nil {
		t.Fatal(err)
	}
	waiting := r.claimJobs()[0]
	if _, err := r.RequestPowerAction(t.Context(), admin, id, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	now := r.claimJobs()
	if len(now) != 1 || now[0].Kind != fleet.VMStop || now[0].Epoch <= waiting.Epoch {
		t.Fatalf("claimed %+v, want the force-off at once", now)
	}
	wantCode(t, r.finishJob(waiting, wire.Finish{Outcome: wire.Failed, Error: "late"}), fleet.Conflict)
}
