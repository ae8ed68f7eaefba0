package control_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// rig is a portal's middle with one joined host, whose agent the test plays.
type rig struct {
	*control.Control
	t     *testing.T
	pool  *pgxpool.Pool
	hub   *notify.Hub
	agent fleet.Actor
	seq   int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	pool := testkit.DB(t)
	hub := notify.NewHub()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hub.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { cancel(); <-done })
	r := &rig{Control: control.New(pool, control.Options{Hub: hub}), t: t, pool: pool, hub: hub}
	r.agent = r.addHost("h1")
	r.hello("one", "here")
	return r
}

func (r *rig) addHost(name string) fleet.Actor {
	id := fleet.NewID[fleet.HostID]()
	r.exec(`INSERT INTO hosts (id, name) VALUES ($1, $2)`, id, name)
	r.exec(`INSERT INTO host_sessions (host_id) VALUES ($1)`, id)
	return fleet.Actor{HostID: id, Name: "host " + name, Address: "192.0.2.1"}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

func one[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	var v T
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) hello(instance, fingerprint string) {
	r.t.Helper()
	answer, err := r.Hello(r.t.Context(), r.agent, wire.Hello{Instance: instance, Fingerprint: fingerprint})
	if err != nil {
		r.t.Fatal(err)
	}
	r.agent.Session, r.seq = answer.Session, answer.SeqBase
}

func (r *rig) next() int64 { r.seq++; return r.seq }

func (r *rig) report(digest string, vms ...wire.VMReport) wire.ReportAnswer {
	r.t.Helper()
	answer, err := r.Report(r.t.Context(), r.agent, wire.Report{
		Seq: r.next(), Digest: digest, State: &wire.State{Host: fleet.HostStatus{Connected: true}, VMs: vms},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// addVM makes a VM with a waiting vm.apply, as CreateVM does.
func (r *rig) addVM(name string) fleet.VMID {
	project := one[string](r, `INSERT INTO projects (id, name) VALUES (gen_random_uuid()::text, gen_random_uuid()::text) RETURNING id`)
	id := fleet.NewID[fleet.VMID]()
	r.exec(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ($1, $2, $3, $4, '{"power":"running","cpus":1,"memoryMiB":128}')`,
		id, project, r.agent.HostID, name)
	r.queue(id, fleet.VMApply)
	return id
}

func (r *rig) queue(id fleet.VMID, kind fleet.JobKind) {
	r.exec(`INSERT INTO jobs (id, host_id, kind, subject, subject_name, generation, created_by) VALUES ($1, $2, $3, $4, '', 1, 'test')`,
		fleet.NewID[fleet.JobID](), r.agent.HostID, kind, fleet.SubjectVM(id))
}

func (r *rig) claim() []wire.Work {
	r.t.Helper()
	claim, err := r.Claim(r.t.Context(), r.agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return claim.Jobs
}

func (r *rig) finish(w wire.Work, f wire.Finish) error {
	f.Epoch, f.Generation = w.Epoch, w.Generation
	if f.Seq == 0 {
		f.Seq = r.next()
	}
	_, err := r.Finish(r.t.Context(), r.agent, w.ID, f)
	return err
}

func wantCode(t *testing.T, err error, code fleet.Code) {
	t.Helper()
	if fleet.CodeOf(err) != code {
		t.Fatalf("got %v, want a refusal of kind %s", err, code)
	}
}

func TestClaimGivesOneJobASubjectInOrder(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.queue(id, fleet.VMStart)
	other := r.addVM("db")
	first := r.claim()
	if len(first) != 2 || first[0].Kind != fleet.VMApply || first[1].Kind != fleet.VMApply {
		t.Fatalf("claimed %+v, want the vm.apply of both VMs", first)
	}
	if got := r.claim(); len(got) != 0 {
		t.Fatalf("claimed %+v while both subjects are busy", got)
	}
	if first[0].VM == nil || first[0].VM.Spec.MemoryMiB != 128 {
		t.Fatalf("the job came without its VM's newest spec: %+v", first[0])
	}
	for _, w := range first {
		if w.VM.ID == id {
			if err := r.finish(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next := r.claim(); len(next) != 1 || next[0].Kind != fleet.VMStart || next[0].VM.ID == other {
		t.Fatalf("claimed %+v, want the start that waited", next)
	}
}

func TestParkedClaimWakesOnAJob(t *testing.T) {
	r := newRig(t)
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

func TestOldEpochIsRefused(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	old := r.claim()[0]
	r.exec(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RescueJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	again := r.claim()[0]
	if again.ID != old.ID || again.Epoch <= old.Epoch {
		t.Fatalf("the lapsed job came back as %+v, was %+v", again, old)
	}
	wantCode(t, r.finish(old, wire.Finish{Outcome: wire.Done}), fleet.Conflict)
	if err := r.finish(again, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	if gen := one[int64](r, `SELECT observed_generation FROM vms WHERE id = $1`, id); gen != 1 {
		t.Fatalf("observed generation %d", gen)
	}
}

func TestAJobIsGivenUpAfterFiveAttempts(t *testing.T) {
	r := newRig(t)
	r.addVM("web")
	for range 5 {
		if len(r.claim()) != 1 {
			t.Fatal("the job was not given again")
		}
		r.exec(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
		if err := r.RescueJobs(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if state := one[string](r, `SELECT state FROM jobs`); state != "failed" {
		t.Fatalf("state %s", state)
	}
}

func TestAFailedCreationCancelsItsStart(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.queue(id, fleet.VMStart)
	w := r.claim()[0]
	words := "Cannot access storage file '/nope'"
	if err := r.finish(w, wire.Finish{Outcome: wire.Failed, Error: words}); err != nil {
		t.Fatal(err)
	}
	if state := one[string](r, `SELECT state FROM jobs WHERE kind = 'vm.start'`); state != "cancelled" {
		t.Fatalf("the start is %s", state)
	}
	if got := one[string](r, `SELECT status->>'error' FROM vms`); got != words {
		t.Fatalf("the VM says %q", got)
	}
}

func TestFinishQueuesAgainWhenTheGenerationHasMovedOn(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	w := r.claim()[0]
	r.exec(`UPDATE vms SET generation = 2 WHERE id = $1`, id)
	if err := r.finish(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	if again := r.claim(); len(again) != 1 || again[0].Generation != 2 {
		t.Fatalf("claimed %+v, want generation 2", again)
	}
}

func TestDeletedVMGoesWithItsJobAndComesBackWhenItFails(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.exec(`UPDATE vms SET deleted_at = now()`)
	r.exec(`UPDATE jobs SET kind = 'vm.delete'`)
	w := r.claim()[0]
	if err := r.finish(w, wire.Finish{Outcome: wire.Failed, Error: "device busy"}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](r, `SELECT count(*) FROM vms WHERE deleted_at IS NULL`); n != 1 {
		t.Fatal("a failed deletion left the VM as deleting")
	}
	r.exec(`UPDATE vms SET deleted_at = now()`)
	r.queue(id, fleet.VMDelete)
	if err := r.finish(r.claim()[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Absent}}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](r, `SELECT count(*) FROM vms`); n != 0 {
		t.Fatal("the VM is still there")
	}
}

func TestReportsOnlyGoForward(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	running := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 1}}
	slow := wire.Report{Seq: r.next(), Digest: "old", State: &wire.State{Host: fleet.HostStatus{Connected: true}}}
	r.report("new", running)
	if _, err := r.Report(t.Context(), r.agent, slow); err != nil {
		t.Fatal(err)
	}
	if power := one[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("an older report made the VM %s", power)
	}
}

func TestALateResultDoesNotHideANewerReport(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	w := r.claim()[0]
	seqOfResult := r.next()
	r.report("d1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	if err := r.finish(w, wire.Finish{Outcome: wire.Done, Seq: seqOfResult, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Digest: "d1"})
	if err != nil || !answer.Resend {
		t.Fatalf("answer %+v, %v: the portal must ask for the whole state again", answer, err)
	}
	if power := one[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("the VM is %s", power)
	}
}

func TestWhatIsMissingFromAReportIsAbsent(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.report("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	r.report("2")
	if power := one[string](r, `SELECT status->>'power' FROM vms`); power != "absent" {
		t.Fatalf("power %s", power)
	}
}

func TestAnAgentWithoutItsHypervisorSaysNothingAboutVMs(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.report("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Digest: "2", State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}}})
	if err != nil {
		t.Fatal(err)
	}
	if power := one[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("power %s", power)
	}
}

func TestAnUnchangedHeartbeatWritesNoVM(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	report := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, NICs: []fleet.NICState{{MAC: "52:54:00:00:00:01"}}}}
	r.report("1", report)
	version := one[string](r, `SELECT xmin::text || ctid::text FROM vms`)
	r.report("1", report) // even a full report
	if answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Digest: "1"}); err != nil || answer.Resend {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	if now := one[string](r, `SELECT xmin::text || ctid::text FROM vms`); now != version {
		t.Fatal("a heartbeat in which nothing changed wrote a new row version")
	}
}

func TestFoundVMsAndStrangersAreShown(t *testing.T) {
	r := newRig(t)
	stranger := fleet.NewID[fleet.VMID]()
	_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Digest: "1", State: &wire.State{
		Host:  fleet.HostStatus{Connected: true},
		VMs:   []wire.VMReport{{ID: stranger, Name: "stamped-elsewhere", Status: fleet.VMStatus{Power: fleet.Running}}},
		Found: []fleet.FoundVM{{ID: fleet.NewID[fleet.VMID](), Name: "legacy", Status: fleet.VMStatus{Power: fleet.Stopped}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	names := one[[]string](r, `SELECT array_agg(name ORDER BY name) FROM found_vms`)
	if diff := cmp.Diff([]string{"legacy", "stamped-elsewhere"}, names); diff != "" {
		t.Fatal(diff)
	}
	r.report("2")
	if n := one[int](r, `SELECT count(*) FROM found_vms`); n != 0 {
		t.Fatal("domains that are gone are still shown")
	}
}

func TestASecondAgentIsRefusedAndFlagged(t *testing.T) {
	r := newRig(t)
	r.report("1")
	_, err := r.Hello(t.Context(), r.agent, wire.Hello{Instance: "two", Fingerprint: "elsewhere"})
	wantCode(t, err, fleet.Conflict)
	if text := one[string](r, `SELECT conflict FROM host_sessions`); text == "" {
		t.Fatal("the host is not flagged")
	}
	r.report("2") // the first one goes on
	if n := one[int](r, `SELECT count(*) FROM audit WHERE action = 'host.conflict'`); n != 1 {
		t.Fatalf("%d audit lines", n)
	}
}

func TestARestartedAgentTakesOverAndGetsItsJobsBack(t *testing.T) {
	r := newRig(t)
	r.report("1")
	r.addVM("web")
	before := r.claim()[0]
	old := r.agent
	r.hello("two", "here")
	if again := r.claim(); len(again) != 1 || again[0].ID != before.ID {
		t.Fatalf("claimed %+v", again)
	}
	_, err := r.Report(t.Context(), old, wire.Report{Seq: 1, Digest: "1"})
	wantCode(t, err, fleet.Conflict)
	_, err = r.Claim(t.Context(), old, wire.ClaimRequest{Max: 1}, 0)
	wantCode(t, err, fleet.Conflict)
}

func TestARemovedHostIsToldToJoinAgain(t *testing.T) {
	r := newRig(t)
	r.exec(`DELETE FROM hosts`)
	_, err := r.Hello(t.Context(), r.agent, wire.Hello{Instance: "x", Fingerprint: "y"})
	wantCode(t, err, fleet.Unauthorized)
}

func TestLeasesAreRenewedByReportsAndLostOnesNamed(t *testing.T) {
	r := newRig(t)
	r.addVM("web")
	w := r.claim()[0]
	r.exec(`UPDATE jobs SET lease_until = now() + interval '1 second'`)
	answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Leases: []wire.Lease{{ID: w.ID, Epoch: w.Epoch}, {ID: "gone", Epoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]fleet.JobID{"gone"}, answer.Lost); diff != "" {
		t.Fatal(diff)
	}
	if !one[bool](r, `SELECT lease_until > now() + interval '20 seconds' FROM jobs`) {
		t.Fatal("the lease was not renewed")
	}
}

func TestDriftQueuesWhatGotLost(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.report("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Stopped}})
	r.exec(`DELETE FROM jobs`)
	r.exec(`UPDATE vms SET generation = 3`)
	for range 2 {
		if err := r.QueueDrifted(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if work := r.claim(); len(work) != 1 || work[0].Generation != 3 {
		t.Fatalf("claimed %+v", work)
	}
}

func TestForcingOffBreaksOffAShutdownThatWaits(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.report("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	r.exec(`DELETE FROM jobs`)
	admin := fleet.SystemActor
	if _, err := r.ActVM(t.Context(), admin, id, fleet.ActShutdown); err != nil {
		t.Fatal(err)
	}
	waiting := r.claim()[0]
	if _, err := r.ActVM(t.Context(), admin, id, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	now := r.claim()
	if len(now) != 1 || now[0].Kind != fleet.VMStop || now[0].Epoch <= waiting.Epoch {
		t.Fatalf("claimed %+v, want the force-off at once", now)
	}
	wantCode(t, r.finish(waiting, wire.Finish{Outcome: wire.Failed, Error: "late"}), fleet.Conflict)
}

func TestVMsOfAHostWithoutItsHypervisorBecomeUnknown(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	r.report("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	blind := func(digest string) {
		_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.next(), Digest: digest, State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	blind("2")
	r.exec(`UPDATE host_sessions SET blind_since = now() - interval '31 seconds'`)
	blind("3") // the agent itself is heard all the time
	vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
	if err != nil || vm.Phase != fleet.PhaseUnknown {
		t.Fatalf("phase %s, %v", vm.Phase, err)
	}
	host, err := r.GetHost(t.Context(), fleet.SystemActor, r.agent.HostID)
	if err != nil || host.Phase != fleet.HostDegraded {
		t.Fatalf("host %s, %v", host.Phase, err)
	}
	r.report("4", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	if vm, _ = r.GetVM(t.Context(), fleet.SystemActor, id); vm.Phase != fleet.PhaseRunning {
		t.Fatalf("phase %s after the hypervisor came back", vm.Phase)
	}
}
