package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// outdatedFinish returns the result of a job that the host refused because of its epoch.
func outdatedFinish(newest int64) wire.Finish {
	return wire.Finish{Outcome: wire.Outdated, Newest: newest}
}

// A restored database issues epochs that its hosts have already seen. The host reports such an epoch as outdated. The
// job is then queued again with a higher epoch, several times if necessary.
func TestOutdatedEpochRequeuesJobWithHigherEpoch(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	// Reset the epoch sequence, as a restored backup does.
	ahead := queryValue[int64](r, `SELECT setval('job_epoch', 5000) << 28`)
	r.execSQL(`SELECT setval('job_epoch', 7)`)
	for n := range 7 {
		w := r.claimJobs()[0]
		if n > 0 && w.Epoch <= ahead {
			t.Fatalf("claim %d has epoch %d, and the host has seen %d", n, w.Epoch, ahead)
		}
		ahead = max(ahead, w.Epoch) + 1<<28 + 7
		if err := r.finishJob(w, outdatedFinish(ahead)); err != nil {
			t.Fatal(err)
		}
		if state := queryValue[string](r, `SELECT state FROM jobs WHERE id = $1`, w.ID); state != "queued" {
			t.Fatalf("the job is %s", state)
		}
		r.skipRetryDelay()
	}
	lapsed := r.claimJobs()[0]
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	again := r.claimJobs()
	if len(again) != 1 || again[0].ID != lapsed.ID {
		t.Fatalf("refusals for the epoch were counted as attempts: %+v", again)
	}
	w := again[0]
	if w.Subject != fleet.SubjectVM(id) || w.Epoch <= ahead {
		t.Fatalf("%+v after %d", w, ahead)
	}
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, Seq: r.nextSeq(), Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Error(err)
	}
	if left := queryValue[int](r, `SELECT count(*)::int FROM jobs WHERE state <> 'done'`); left != 0 {
		t.Errorf("%d jobs are not done", left)
	}
}

// The result of an ended claim is ignored, and one host's report does not change other hosts' epochs.
func TestOutdatedResultOfEndedClaimIgnored(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	late := r.claimJobs()[0]
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	w := r.claimJobs()[0]
	if w.ID != late.ID || w.Epoch <= late.Epoch {
		t.Fatalf("%+v after %+v", w, late)
	}
	refused := func(what string, w wire.Work, newest int64, code fleet.ErrorCode) {
		t.Helper()
		if err := r.finishJob(w, outdatedFinish(newest)); fleet.CodeOf(err) != code {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a late claim", late, w.Epoch, fleet.Conflict)
	refused("an epoch that is not newer", w, w.Epoch, fleet.Malformed)
	refused("an absurd jump", w, w.Epoch+1<<56+1, fleet.Malformed)
	refused("an absurd number", w, 1<<62, fleet.Malformed)
	if err := r.finishJob(w, outdatedFinish(w.Epoch+1<<50)); err != nil {
		t.Fatal(err)
	}
	r.skipRetryDelay()
	other := *r
	other.agent = r.addHost("h2")
	other.sendHello("two", "there")
	vm := other.addVM("db")
	for _, got := range other.claimJobs() {
		if got.Subject == fleet.SubjectVM(vm) && got.Epoch > w.Epoch+1<<40 {
			t.Errorf("the other host's epoch rose from %d to %d", w.Epoch, got.Epoch)
		}
	}
	if again := r.claimJobs()[0]; again.Epoch <= w.Epoch+1<<50 {
		t.Errorf("the reporting host's epoch is %d after %d", again.Epoch, w.Epoch)
	}
}

// A change that the host applied after the backup shows as drift in the host's next report, and is reapplied only on
// request.
func TestVMChangedAfterBackupShowsAsDriftAndIsReapplied(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	w := r.claimJobs()[0]
	if w.SpecHash == "" {
		t.Fatal("the job has no hash of the spec")
	}
	vmReport := func(generation, stamped int64, hash string) wire.VMReport {
		return wire.VMReport{ID: id, Name: "web", Generation: generation, Stamped: stamped, SpecHash: hash, Status: fleet.VMStatus{Power: fleet.Stopped}}
	}
	if err := r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	digest := 0
	queued := func(when string, vm wire.VMReport) bool {
		t.Helper()
		digest++
		r.reportState(string(rune('a'+digest)), vm)
		return queryValue[int](r, `SELECT count(*)::int FROM jobs WHERE kind = 'vm.apply' AND state = 'queued' AND generation = (SELECT generation FROM vms)`) == 1
	}
	for when, vm := range map[string]wire.VMReport{
		"as ordered":                        vmReport(1, 1, w.SpecHash),
		"by an agent that knows no hashes":  vmReport(2, 0, ""),
		"by a definition that has none":     vmReport(1, 1, ""),
		"behind":                            vmReport(1, 0, "other"),
		"applied before the newest, failed": vmReport(2, 0, w.SpecHash),
	} {
		if queued(when, vm) {
			t.Errorf("%s: the VM is applied again", when)
		}
	}
	for when, vm := range map[string]wire.VMReport{
		"of a generation that is not reached": vmReport(2, 2, "other"),
		"of the same one with another spec":   vmReport(1, 1, "other"),
	} {
		if !queued(when, vm) || !queued(when+", again", vm) {
			t.Errorf("%s: the VM is not applied once", when)
		}
		r.execSQL(`UPDATE jobs SET state = 'failed', ended_at = now() WHERE state = 'queued'`)
		if queued(when+", which just failed", vm) {
			t.Errorf("%s: the VM is applied repeatedly", when)
		}
		r.execSQL(`UPDATE jobs SET state = 'done' WHERE state = 'failed'`)
		if queued(when+", as before its order was done", vm) {
			t.Errorf("%s: the VM is applied repeatedly on a host that never reports success", when)
		}
		r.execSQL(`DELETE FROM jobs WHERE task_id IN (SELECT id FROM tasks WHERE created_by = 'Quantix')`)
	}
	r.execSQL(`UPDATE vms SET spec = spec || '{"power":"stopped"}'`)
	if queued("with another power", vmReport(1, 1, w.SpecHash)) {
		t.Error("the hash of the definition depends on the wanted power state")
	}
}
