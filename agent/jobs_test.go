package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// pausableHost is a host whose resets wait for a signal and whose pauses panic.
type pausableHost struct {
	*mock.Host
	entered chan fleet.VMID
	release chan struct{}
}

func (h *pausableHost) ResetVM(ctx context.Context, id fleet.VMID) error {
	h.entered <- id
	select {
	case <-h.release:
		return h.Host.ResetVM(ctx, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *pausableHost) PauseVM(context.Context, fleet.VMID) error { panic("the test pulls the rug") }

func newPausableHost() *pausableHost {
	return &pausableHost{mock.New(mock.Options{Name: "host-1"}), make(chan fleet.VMID, 8), make(chan struct{})}
}

// The agent reports the newest epoch at once. A portal whose database was restored then gives out the job again under a
// higher epoch.
func TestOutdatedEpochIsReportedAndJobNotRun(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm, Epoch: 9})
	outdated := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMStart, VM: vm, Epoch: 8}
	p.queueJob(outdated)
	if f := p.waitResult(outdated.ID); f.Outcome != wire.Outdated || f.Epoch != 8 || f.Newest != 9 || f.VM != nil {
		t.Errorf("the outdated job ended %+v", f)
	}
	p.update(func() { p.finishes = nil })
	outdated.Epoch = 10
	p.queueJob(outdated)
	if f := p.waitResult(outdated.ID); f.Outcome != wire.Done || f.Epoch != 10 || f.VM.Power != fleet.Running {
		t.Errorf("given again, the job ended %+v", f)
	}
}

func TestReclaimedRunningJobFinishesOnceUnderNewEpoch(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newPausableHost()
	p.startAgent(p.join(), host, host.Host)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	job := p.queueJob(wire.Work{Kind: fleet.VMReset, VM: vm, Epoch: 2})
	<-host.entered
	p.queueJob(wire.Work{ID: job, Kind: fleet.VMReset, VM: vm, Epoch: 3})
	p.waitUntil("a lease of the new epoch", func() bool {
		for _, r := range p.reports {
			if slices.Contains(r.Leases, (wire.Lease{ID: job, Epoch: 3})) {
				return true
			}
		}
		return false
	})
	close(host.release)
	if f := p.waitResult(job); f.Outcome != wire.Done || f.Epoch != 3 {
		t.Errorf("the job ended %+v", f)
	}
	// The portal sends the job again after the job has ended: the agent returns the result from its journal and does
	// not run the job.
	p.waitIdle()
	p.update(func() { p.finishes = nil })
	p.queueJob(wire.Work{ID: job, Kind: fleet.VMReset, VM: vm, Epoch: 4})
	if f := p.waitResult(job); f.Outcome != wire.Done || f.Epoch != 4 || len(host.entered) != 0 {
		t.Errorf("the repeated job ended %+v", f)
	}
}

func TestJobsOfOneVMRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newPausableHost()
	p.startAgent(p.join(), host, host.Host)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	reset := p.queueJob(wire.Work{Kind: fleet.VMReset, VM: vm, Epoch: 2})
	<-host.entered
	stop := p.queueJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3})
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: newVM("other")}) // this job is claimed after the stop job and finishes before it
	close(host.release)
	first, second := p.waitResult(reset), p.waitResult(stop)
	if first.VM.Power != fleet.Running || second.VM.Power != fleet.Stopped || first.Seq >= second.Seq {
		t.Errorf("the reset ended %+v, the stop %+v", first, second)
	}
}

// noLiveEditHost is a host that refuses to change running guests.
type noLiveEditHost struct{ *mock.Host }

func (h noLiveEditHost) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	err := h.Host.ApplyVM(ctx, in)
	if status, _, look := h.VM(ctx, in.VM.ID); err == nil && look == nil && status.Power == fleet.Running {
		return fleet.Errorf(fleet.Conflict, "cgroup CPU controller is not mounted")
	}
	return err
}

func TestRepeatedStartSucceedsWhenGuestRuns(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.startAgent(p.join(), noLiveEditHost{host}, host)
	vm := newVM("web")
	job := p.queueJob(wire.Work{Kind: fleet.VMStart, VM: vm, Epoch: 1})
	if f := p.waitResult(job); f.Outcome != wire.Done || f.VM.Power != fleet.Running {
		t.Fatalf("the start ended %+v", f)
	}
	p.waitIdle()
	p.update(func() { p.finishes = nil })
	p.queueJob(wire.Work{ID: job, Kind: fleet.VMStart, VM: vm, Epoch: 2})
	if f := p.waitResult(job); f.Outcome != wire.Done || f.Error != "" || f.VM.Power != fleet.Running || f.VM.Error != "" {
		t.Errorf("the start given again ended %+v", f)
	}
	vm.Generation++ // a start does not hide a failed edit of a later generation
	if f := p.waitResult(p.queueJob(wire.Work{Kind: fleet.VMApply, VM: vm, Epoch: 3})); f.Outcome != wire.Failed {
		t.Errorf("the edit ended %+v", f)
	}
}

func TestJobWithLostLeaseSendsNoResult(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM(mock.NoShutdown)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	job := p.queueJob(wire.Work{Kind: fleet.VMShutdown, VM: vm, Epoch: 2})
	p.waitUntil("the wait for the guest", func() bool { return len(p.notes) > 0 })
	p.update(func() { p.lostJobs = []fleet.JobID{job} })
	// The VM's next job starts at once, and the lost job sends no result.
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.finishes {
		if f.ID == job {
			t.Errorf("the lost job was finished: %+v", f)
		}
	}
}

func TestForceOffDoesNotWaitForShutdown(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM(mock.NoShutdown)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	p.queueJob(wire.Work{Kind: fleet.VMShutdown, VM: vm, Epoch: 2})
	p.waitUntil("the wait for the guest", func() bool { return len(p.notes) > 0 })
	if stop := p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3}); stop.VM.Power != fleet.Stopped {
		t.Errorf("the stop ended %+v", stop)
	}
}

func TestConsoleJobNeitherWaitsNorRaisesEpoch(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newPausableHost()
	p.startAgent(p.join(), host, host.Host)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm, Epoch: 1})
	reset := p.queueJob(wire.Work{Kind: fleet.VMReset, VM: vm, Epoch: 2})
	<-host.entered
	// The console job arrives while the reset runs.
	p.runJob(wire.Work{Kind: fleet.ConsoleOpen, VM: vm, Epoch: 9, Args: fleet.JobArgs{Console: "c-1"}})
	close(host.release)
	p.waitResult(reset)
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3}) // an epoch lower than the console job's
}

func TestPanicFailsJobWithLogReference(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newPausableHost()
	p.startAgent(p.join(), host, host.Host)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	f := p.runJob(wire.Work{Kind: fleet.VMPause, VM: vm, Epoch: 2})
	if f.Outcome != wire.Failed || !strings.Contains(f.Error, "reference") || strings.Contains(f.Error, "rug") {
		t.Errorf("the job ended %+v", f)
	}
	if f := p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3}); f.Outcome != wire.Done {
		t.Errorf("the next job ended %+v", f)
	}
}

func TestUnknownJobKindIsRefused(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	if f := p.runJob(wire.Work{Kind: "vm.teleport", VM: newVM("web")}); f.Outcome != wire.Failed || !strings.Contains(f.Error, "upgrade") {
		t.Errorf("the job ended %+v", f)
	}
}

// An agent process is killed during a reset: the next agent reports the outcome as unknown and does not reset again.
func TestKilledAgentReportsSingleShotJobAsUnknown(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	dir := p.join()
	vm := newVM("web")
	child := startAgentProcess(t, dir)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	job := p.queueJob(wire.Work{Kind: fleet.VMReset, VM: vm, Epoch: 5})
	child.waitForLine(t, "reset "+string(vm.ID))
	child.kill(t)

	child = startAgentProcess(t, dir)
	if f := p.waitResult(job); f.Outcome != wire.Unknown || f.Epoch != 5 || f.Error == "" {
		t.Errorf("after the kill, the job ended %+v", f)
	}
	p.waitIdle()
	p.update(func() { p.finishes = nil })
	p.queueJob(wire.Work{ID: job, Kind: fleet.VMReset, VM: vm, Epoch: 6})
	if f := p.waitResult(job); f.Outcome != wire.Unknown || f.Epoch != 6 {
		t.Errorf("given again, the job ended %+v", f)
	}
	child.kill(t)
	for child.out.Scan() {
		if strings.HasPrefix(child.out.Text(), "reset") {
			t.Error("the reset was pressed again")
		}
	}
}

// agentProcess is this test binary running as a real agent process.
type agentProcess struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

const agentDirEnv = "QUANTIX_TEST_AGENT_DIR"

func startAgentProcess(t *testing.T, dir string) *agentProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAgentProcess$")
	cmd.Env = append(os.Environ(), agentDirEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &agentProcess{cmd, bufio.NewScanner(out)}
}

func (c *agentProcess) waitForLine(t *testing.T, want string) {
	t.Helper()
	for c.out.Scan() {
		if c.out.Text() == want {
			return
		}
	}
	t.Fatalf("the agent process never said %q", want)
}

func (c *agentProcess) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestAgentProcess is the agent process of TestKilledAgentReportsSingleShotJobAsUnknown; on its own it does nothing.
func TestAgentProcess(t *testing.T) {
	dir := os.Getenv(agentDirEnv)
	if dir == "" {
		return
	}
	host := newPausableHost()
	go func() {
		for id := range host.entered {
			fmt.Printf("reset %s\n", id)
		}
	}()
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, run := newRun(t, id, host, host.Host)
	run(context.Background())
}
