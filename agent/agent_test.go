package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestVMIsCreatedStartedAndDeleted(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM("web")
	made := p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm})
	if made.Outcome != wire.Done || made.Generation != 1 || made.VM == nil || made.VM.Power != fleet.Stopped {
		t.Fatalf("apply ended %+v", made)
	}
	vm.Generation = 2
	started := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm, Epoch: 2})
	if started.Outcome != wire.Done || started.VM.Power != fleet.Running || started.Generation != 2 {
		t.Fatalf("start ended %+v", started)
	}
	p.waitStateSince(0, "the report after the start", func(s wire.State) bool {
		r, ok := reportedVM(s, vm.ID)
		return ok && r.Status.Power == fleet.Running && r.Generation == 2
	})
	for i, kind := range []fleet.JobKind{fleet.VMPause, fleet.VMResume, fleet.VMReboot, fleet.VMReset, fleet.VMShutdown, fleet.VMStop} {
		if f := p.runJob(wire.Work{Kind: kind, VM: vm, Epoch: int64(3 + i)}); f.Outcome != wire.Done {
			t.Errorf("%s ended %+v", kind, f)
		}
	}
	gone := p.runJob(wire.Work{Kind: fleet.VMDelete, VM: vm, Epoch: 20, Args: fleet.JobArgs{DeleteDisks: true}})
	if gone.Outcome != wire.Done || gone.VM.Power != fleet.Absent {
		t.Errorf("delete ended %+v", gone)
	}
	p.waitNextState("the report after the delete", func(s wire.State) bool { _, ok := reportedVM(s, vm.ID); return !ok })

	p.mu.Lock()
	defer p.mu.Unlock()
	last := int64(1000)
	for _, r := range p.reports {
		if r.State == nil {
			continue // lease renewals may overtake a slow host report and contain no state of the host
		}
		if r.Seq <= last {
			t.Errorf("report %d follows %d", r.Seq, last)
		}
		last = r.Seq
	}
	if p.reports[0].State == nil || !p.reports[0].State.Host.Connected || p.reports[0].State.Host.Inventory.Hostname != "host-1" {
		t.Errorf("the first report is %+v", p.reports[0])
	}
}

// slowApply is a host whose ApplyVM waits for a signal after it has written the definition.
type slowApply struct {
	*mock.Host
	release chan struct{}
}

func (h *slowApply) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	if err := h.Host.ApplyVM(ctx, in); err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-h.release:
			return nil
		case <-tick.C:
			in.Progress(100, "waiting")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A start writes the new generation into the definition before the job ends. Neither this agent nor the next one may
// report that generation as applied before the job has succeeded.
func TestInterruptedStartIsNotReportedAsDone(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := &slowApply{mock.New(mock.Options{Name: "host-1"}), make(chan struct{})}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	vm := newVM("web")
	vm.Generation = 3
	p.queueJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	stamped := func(s wire.State) bool { r, ok := reportedVM(s, vm.ID); return ok && r.Status.Power == fleet.Stopped }
	acted := func() bool {
		for _, r := range p.reports {
			if r.State == nil {
				continue
			}
			if got, ok := reportedVM(*r.State, vm.ID); ok && got.Generation != 0 {
				return true
			}
		}
		return false
	}
	p.waitStateSince(0, "the definition", stamped)
	stop()
	none := func() {
		if acted() {
			t.Error("the half-done job was reported as done")
		}
		p.reports = nil
	}
	p.update(none)
	p.startAgent(dir, host, host.Host)
	p.waitStateSince(0, "the definition, by the next agent", stamped)
	p.update(none)
	close(host.release)
	f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm, Epoch: 2})
	if f.Outcome != wire.Done || f.Generation != 3 {
		t.Errorf("given again, it ended %+v", f)
	}
	p.waitStateSince(0, "the report of what was done", func(s wire.State) bool {
		r, ok := reportedVM(s, vm.ID)
		return ok && r.Generation == 3 && r.Status.Power == fleet.Running
	})
}

func TestUnchangedHostSendsHeartbeatsWithoutState(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	quiet := func() bool {
		n := len(p.reports)
		return n >= 3 && p.reports[n-1].State == nil && p.reports[n-2].State == nil && p.reports[n-1].Digest == p.reports[n-2].Digest
	}
	// Only periodic reports contain load measurements (meters).
	p.waitUntil("two heartbeats, one with the host's load", func() bool { return quiet() && p.reports[len(p.reports)-1].Load != nil })
	p.update(func() { p.resend = true })
	p.waitNextState("the full report that was asked for", func(wire.State) bool { return true })
	p.waitUntil("two heartbeats again", quiet)
}

func TestAssignedPoolsAreReported(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	good := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "fast", Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}}
	bad := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "nfs", Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/mnt/nfs", Server: "refused.example", Export: "/vm"}}
	p.update(func() { p.pools = []fleet.Pool{good, bad} })
	if f := p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &good}); f.Outcome != wire.Done || f.Pool == nil || f.Pool.State != fleet.PoolActive {
		t.Errorf("the good pool ended %+v", f)
	}
	f := p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &bad})
	if f.Outcome != wire.Failed || f.Pool == nil || f.Pool.State != fleet.PoolFailed || !strings.Contains(f.Pool.Error, "Connection refused") {
		t.Errorf("the bad pool ended %+v", f)
	}
	s := p.waitStateSince(0, "both pools", func(s wire.State) bool {
		return len(s.Pools) == 2 && s.Pools[0].Status.State == fleet.PoolActive && s.Pools[1].Status.State == fleet.PoolFailed
	})
	if !s.Host.Connected || s.Host.Error != "" {
		t.Errorf("a pool's fault shows on the host: %+v", s.Host)
	}
}

func TestJobFailureIsReportedAfterAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	vm := newVM(mock.FailCreate)
	vm.Generation = 3
	f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm})
	if f.Outcome != wire.Failed || f.Generation != 3 || f.VM.Power != fleet.Absent || f.VM.Error != f.Error || f.VM.ErrorOf != fleet.VMApply {
		t.Fatalf("the creation ended %+v", f)
	}
	stop()
	_, _ = p.startAgent(dir, host, host)
	failed := func(s wire.State) bool {
		r, ok := reportedVM(s, vm.ID)
		return ok && r.Name == vm.Name && r.Status.Power == fleet.Absent && r.Generation == 3 && strings.Contains(r.Status.Error, "No space left")
	}
	p.waitNextState("the failure after the restart", failed)
	p.runJob(wire.Work{Kind: fleet.VMDelete, VM: vm, Epoch: 2})
	p.waitNextState("nothing after the delete", func(s wire.State) bool { return !failed(s) })
}

func TestHungStartTimesOutAndDelaysNoOtherJob(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	hung := p.queueJob(wire.Work{Kind: fleet.VMStart, VM: newVM(mock.HangOnStart)})
	if f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: newVM("other")}); f.Outcome != wire.Done {
		t.Errorf("the other VM ended %+v", f)
	}
	f := p.waitResult(hung)
	if f.Outcome != wire.Failed || f.Error != "The hypervisor did not answer in time." {
		t.Errorf("the hung start ended %+v", f)
	}
}

func TestHungHypervisorIsReported(t *testing.T) {
	t.Parallel()
	p, host := newPortalWithAgent(t)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	slow := newVM(mock.NoShutdown)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: slow})
	p.waitStateSince(0, "the report of both", func(s wire.State) bool { return len(s.VMs) == 2 })
	thaw := host.FreezeLibvirt()
	defer thaw()
	s := p.waitNextState("the report without a hypervisor", func(s wire.State) bool { return !s.Host.Connected })
	if r, ok := reportedVM(s, vm.ID); !ok || r.Status.Power != fleet.Running || !strings.Contains(s.Host.Error, "did not answer") {
		t.Errorf("the state is %+v", s)
	}
	job := p.queueJob(wire.Work{Kind: fleet.VMStop, VM: slow, Epoch: 5})
	p.waitUntil("renewed leases", func() bool {
		n := 0
		for _, r := range p.reports {
			if len(r.Leases) == 1 && r.Leases[0] == (wire.Lease{ID: job, Epoch: 5}) {
				n++
			}
		}
		return n >= 3
	})
	thaw()
	if f := p.waitResult(job); f.Outcome != wire.Done {
		t.Errorf("the job ended %+v", f)
	}
	p.waitNextState("the return", func(s wire.State) bool { return s.Host.Connected })
}

func TestShutdownWaitsUntilGuestIsOff(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM(mock.NoShutdown)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	f := p.runJob(wire.Work{Kind: fleet.VMShutdown, VM: vm, Epoch: 2})
	if f.Outcome != wire.Failed || !strings.HasPrefix(f.Error, "The guest did not power off within") || f.VM.Power != fleet.Running {
		t.Errorf("the shutdown ended %+v", f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(strings.Join(p.notes, "\n"), "Waiting for the guest") {
		t.Errorf("progress notes are %q", p.notes)
	}
}

func TestAgentRefusedByPortalClaimsNoJobs(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.refusals["hello"] = 409
	p.startAgent(p.join(), host, host)
	job := p.queueJob(wire.Work{Kind: fleet.VMApply, VM: newVM("web")})
	p.waitUntil("three hellos", func() bool { return len(p.serials) >= 3 })
	p.mu.Lock()
	if len(p.claimed)+len(p.reports)+len(p.finishes) != 0 {
		t.Error("a refused agent claimed or reported")
	}
	p.mu.Unlock()
	p.update(func() { delete(p.refusals, "hello") })
	p.waitResult(job)
	// The portal refuses a report, because another session of this host exists: the agent sends a new hello.
	p.update(func() { p.refusals["report"] = 409 })
	p.waitUntil("the second hello", func() bool { return p.session >= 2 })
	p.update(func() { delete(p.refusals, "report") })
	if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: newVM("db")}); f.Seq <= 2000 {
		t.Errorf("in the new session, seq is %d", f.Seq)
	}
}

func TestJobResultIsDeliveredAfterPortalOutage(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	p.update(func() { p.refusals["jobs"], p.refusals["report"] = 503, 503 })
	job := p.queueJob(wire.Work{Kind: fleet.VMStart, VM: newVM("web")})
	p.waitUntil("the claim", func() bool { return len(p.claimed) == 1 })
	calls := 0
	p.mu.Lock()
	calls = len(p.serials)
	p.mu.Unlock()
	p.waitUntil("some attempts", func() bool { return len(p.serials) > calls+5 })
	p.update(func() { clear(p.refusals) })
	if f := p.waitResult(job); f.Outcome != wire.Done || f.VM.Power != fleet.Running {
		t.Errorf("the job ended %+v", f)
	}
}

// The agent's session ends while a result is being delivered: the portal sends the job again, and the result needs a
// sequence number of the new session.
func TestJobResultOfEndedSessionGetsNewSequenceNumber(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	p.update(func() { p.refusals["jobs"] = 503 })
	vm := newVM("web")
	w := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMApply, VM: vm}
	p.queueJob(w)
	p.waitNextState("the VM", func(s wire.State) bool { _, ok := reportedVM(s, vm.ID); return ok })
	for _, session := range []int{4, 1} { // numbers fall if a portal was restored from a backup
		hellos := 0
		p.update(func() { hellos, p.session, p.refusals["report"] = len(p.hellos), session, 409 })
		p.waitUntil("another hello", func() bool { return len(p.hellos) > hellos })
	}
	p.update(func() { delete(p.refusals, "report") })
	w.Epoch = 2
	p.queueJob(w)
	p.waitUntil("the job under its new epoch", func() bool { return len(p.claimed) == 2 })
	p.update(func() { delete(p.refusals, "jobs") })
	if f := p.waitResult(w.ID); f.Epoch != 2 || f.VM == nil || f.VM.Power != fleet.Stopped {
		t.Errorf("%+v", f)
	}
}

// A portal that has accepted a result may send the job again before the agent receives the acknowledgement of the
// result.
func TestJobReclaimedBeforeFinishAckRunsAgain(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	w := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMApply, VM: newVM("web"), Epoch: 1}
	p.update(func() {
		p.beforeAck = func() {
			again := w
			again.Epoch = 2
			p.queueJob(again)
			p.waitUntil("the agent has it, and asks for more", func() bool { return len(p.claimed) == 2 && len(p.queue) == 0 && p.claims > 2 })
		}
	})
	p.queueJob(w)
	p.waitUntil("a result of each", func() bool {
		return len(p.finishes) == 2 && p.finishes[0].Epoch == 1 && p.finishes[1].Epoch == 2 && p.finishes[1].Outcome == wire.Done
	})
}

func TestCertificateIsRenewedWithoutRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.certificateLifetime = 3 * time.Second
	p.startAgent(p.join(), host, host)
	p.waitUntil("calls with a second certificate", func() bool {
		n := map[string]int{}
		for _, s := range p.serials {
			n[s]++
		}
		return len(n) >= 2 && n[p.serials[len(p.serials)-1]] > 1
	})
	if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: newVM("web")}); f.Outcome != wire.Done {
		t.Errorf("the job ended %+v", f)
	}
}

// The portal's database was restored to a state before an edit. The start keeps the applied definition. Reports contain
// the host's current state, so that the portal learns the newer spec again.
func TestStartByRestoredPortalKeepsNewerAppliedSpec(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	old := newVM("web")
	old.Generation, old.Spec.CPUs = 1, 1
	edited := *old
	edited.Generation, edited.Spec.CPUs = 2, 2
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: old, Generation: 1, SpecHash: "one", Epoch: 1})
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: &edited, Generation: 2, SpecHash: "two", Epoch: 2})
	p.waitStateSince(0, "the edit", func(s wire.State) bool {
		vm, ok := reportedVM(s, old.ID)
		return ok && vm.Generation == 2 && vm.Stamped == 2 && vm.SpecHash == "two" && len(vm.Status.Drift) == 0
	})
	f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: old, Generation: 1, SpecHash: "one", Epoch: 3})
	if f.Outcome != wire.Done || f.VM.Power != fleet.Running || f.VM.CPUs != 2 || len(f.VM.Drift) != 1 || f.VM.Drift[0].Field != "cpus" {
		t.Errorf("the start made %+v", f.VM)
	}
	p.waitStateSince(0, "the record of the restored portal", func(s wire.State) bool {
		vm, ok := reportedVM(s, old.ID)
		return ok && vm.Generation == 1 && vm.Stamped == 1 && vm.SpecHash == "one" && len(vm.Status.Drift) == 1
	})
}
