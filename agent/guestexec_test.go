package agent_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// runningVMWithPrograms returns a running VM whose policy allows programs in the guest.
func runningVMWithPrograms(p *portal, name string) *fleet.VM {
	p.t.Helper()
	vm := newVM(name)
	vm.Spec.Policy.GuestExec = true
	if f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm}); f.Outcome != wire.Done {
		p.t.Fatalf("start: %+v", f)
	}
	return vm
}

func runProgramJob(vm *fleet.VM, program string, seconds int) wire.Work {
	return wire.Work{Kind: fleet.VMExec, VM: vm, Epoch: 2, Args: fleet.JobArgs{Guest: &fleet.GuestParams{Program: program, Seconds: seconds}}}
}

// A program runs in the guest if the VM's policy on the host allows it, and its result is reported. Its arguments
// appear only in the guest.
func TestGuestProgramArgumentsStayInGuest(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	p.startAgent(dir, host, host)
	const secret = "correct horse"
	bears := func(text string) { p.update(func() { p.secret = text }) }
	bears(`{"program": "/bin/echo", "args": ["-n", "` + secret + `"]}`)
	vm, shut := runningVMWithPrograms(p, "web"), newVM("db")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: shut})
	f := p.runJob(runProgramJob(vm, "/bin/echo", 30))
	if f.Outcome != wire.Done || f.VM != nil || f.Output == nil || f.Output.Stdout != "-n "+secret+"\n" || f.Output.ExitCode != 0 {
		t.Fatalf("run: %+v", f)
	}
	want := fleet.GuestProgram{Program: "/bin/echo", Args: []string{"-n", secret}}
	if got := host.GuestPrograms(vm.ID); len(got) != 1 || got[0].Program != want.Program || !slices.Equal(got[0].Args, want.Args) {
		t.Errorf("the guest ran %+v", got)
	}
	for name, w := range map[string]wire.Work{
		"where no policy allows it": runProgramJob(shut, "/bin/echo", 30), "another than the order says": runProgramJob(vm, "/bin/rm", 30), "for ever": runProgramJob(vm, "/bin/echo", 301),
		"for no time": runProgramJob(vm, "/bin/echo", 0), "nothing": {Kind: fleet.VMExec, VM: vm, Epoch: 2},
	} {
		if f := p.runJob(w); f.Outcome != wire.Failed || f.Output != nil || strings.Contains(f.Error, secret) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	bears(`{"program": "/bin/false", "args": null}`)
	if f := p.runJob(runProgramJob(vm, "/bin/false", 30)); f.Outcome != wire.Failed || f.Output == nil || f.Output.ExitCode != 1 || f.Output.Stderr == "" || !strings.Contains(f.Error, "exit code 1") {
		t.Errorf("a program that fails: %+v", f)
	}
	bears(`{"program": "/bin/sleep", "args": ["600"]}`)
	if f := p.runJob(runProgramJob(vm, "/bin/sleep", 1)); f.Outcome != wire.Unknown || f.Output != nil || !strings.Contains(f.Error, "may still run") {
		t.Errorf("a program that does not end: %+v", f)
	}
	if got := host.GuestPrograms(vm.ID); len(got) != 3 || len(host.GuestPrograms(shut.ID)) != 0 {
		t.Errorf("the guests ran %+v and %+v", got, host.GuestPrograms(shut.ID))
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s has an argument, or %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A repeated job does not run the program again. A forced stop of the VM does not wait for a running program.
func TestGuestProgramRunsOnce(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	p.update(func() { p.secret = `{"program": "/bin/echo", "args": []}` })
	vm := runningVMWithPrograms(p, "web")
	w := runProgramJob(vm, "/bin/echo", 30)
	w.ID = fleet.NewID[fleet.JobID]()
	if f := p.runJob(w); f.Outcome != wire.Done {
		t.Fatalf("run: %+v", f)
	}
	stop()
	p.startAgent(dir, host, host)
	w.Epoch++
	if f := p.runJob(w); f.Outcome != wire.Done || len(host.GuestPrograms(vm.ID)) != 1 {
		t.Errorf("given again it ended %+v, and ran %d times", f, len(host.GuestPrograms(vm.ID)))
	}
	p.update(func() { p.secret = `{"program": "/bin/sleep", "args": ["600"]}` })
	w = runProgramJob(vm, "/bin/sleep", 300)
	w.Epoch = 5
	p.queueJob(w)
	p.waitUntil("the guest runs it", func() bool { return len(host.GuestPrograms(vm.ID)) == 2 })
	if f := p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 9}); f.Outcome != wire.Done || f.VM.Power != fleet.Stopped {
		t.Errorf("forced off meanwhile: %+v", f)
	}
}

// restartCounter is a host that counts shutdowns and starts. A test can interrupt its agent between two steps.
type restartCounter struct {
	*mock.Host
	shutdowns, starts     chan struct{} // buffered; one value for each call
	allowStart            chan struct{} // closed once guests may start
	readsWithoutStartTime atomic.Int32  // number of reads without StartedAt, plus one
}

func (h *restartCounter) VM(ctx context.Context, id fleet.VMID) (fleet.VMStatus, int64, error) {
	s, generation, err := h.Host.VM(ctx, id)
	if s.StartedAt != nil && h.readsWithoutStartTime.Add(-1) >= 0 {
		s.StartedAt = nil
	}
	return s, generation, err
}

func (h *restartCounter) ShutdownVM(ctx context.Context, id fleet.VMID) error {
	h.shutdowns <- struct{}{}
	return h.Host.ShutdownVM(ctx, id)
}

func (h *restartCounter) StartVM(ctx context.Context, id fleet.VMID) error {
	h.starts <- struct{}{}
	select {
	case <-h.allowStart:
		return h.Host.StartVM(ctx, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A restart ends the guest run that the job names, once, and applies edits that wait for the next start. The repeated
// job does not end the new run.
func TestRestartEndsOnlyTheGuestRunNamedByJob(t *testing.T) {
	t.Parallel()
	host := &restartCounter{Host: mock.New(mock.Options{Name: "host-1"}), shutdowns: make(chan struct{}, 100), starts: make(chan struct{}, 100), allowStart: make(chan struct{})}
	close(host.allowStart)
	p := newPortal(t)
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	vm := newVM("web")
	first := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	if first.Outcome != wire.Done || first.VM.StartedAt == nil {
		t.Fatalf("start: %+v", first)
	}
	host.Host.BackdateStart(vm.ID) // runs are distinguished to the second
	seen, _, err := host.VM(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	vm.Generation, vm.Spec.MemoryMiB = 2, 256
	if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm, Epoch: 2}); f.Outcome != wire.Done || !slices.Contains(f.VM.NextBoot, "memoryMiB") {
		t.Fatalf("edit: %+v", f)
	}
	order := wire.Work{Kind: fleet.VMRestart, VM: vm, Epoch: 3, Args: fleet.JobArgs{Run: seen.StartedAt}}
	restarted := p.runJob(order)
	if f := restarted; f.Outcome != wire.Done || f.VM.Power != fleet.Running || f.VM.StartedAt.Equal(*seen.StartedAt) || len(f.VM.NextBoot) != 0 || f.VM.MemoryMiB != 256 {
		t.Fatalf("restart: %+v", f)
	}
	order.ID, order.Epoch = "", 4
	if f := p.runJob(order); f.Outcome != wire.Done || len(host.shutdowns) != 1 || !f.VM.StartedAt.Equal(*restarted.VM.StartedAt) {
		t.Errorf("the repeated restart: %+v; %d shut down", f, len(host.shutdowns))
	}
	order.ID, order.Epoch, order.Args.Run = "", 5, nil
	if f := p.runJob(order); f.Outcome != wire.Failed || len(host.shutdowns) != 1 {
		t.Errorf("a restart without a run: %+v", f)
	}

	// If the host reports no start time, the agent reads the VM again and does not shut the guest down yet, because the
	// guest may be in a later run.
	host.Host.BackdateStart(vm.ID)
	seen, _, err = host.VM(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	order.ID, order.Epoch, order.Args.Run = "", 6, seen.StartedAt
	host.readsWithoutStartTime.Store(2)
	if f := p.runJob(order); f.Outcome != wire.Done || len(host.shutdowns) != 2 || host.readsWithoutStartTime.Load() > 0 || f.VM.StartedAt.Equal(*seen.StartedAt) {
		t.Fatalf("with a start time missing for a moment: %+v; %d shut down", f, len(host.shutdowns))
	}
	host.Host.BackdateStart(vm.ID)
	seen, _, err = host.VM(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	order.ID, order.Epoch, order.Args.Run = "", 7, seen.StartedAt
	host.readsWithoutStartTime.Store(1000)
	if f := p.runJob(order); f.Outcome != wire.Failed || !strings.Contains(f.Error, "does not report when") || len(host.shutdowns) != 2 {
		t.Fatalf("without any start time: %+v; %d shut down", f, len(host.shutdowns))
	}
	host.readsWithoutStartTime.Store(0)

	// If the agent stops while the guest is off, the restarted agent starts the guest when the job is repeated.
	host.Host.BackdateStart(vm.ID)
	seen, _, err = host.VM(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	host.allowStart = make(chan struct{})
	order = wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMRestart, VM: vm, Epoch: 8, Args: fleet.JobArgs{Run: seen.StartedAt}}
	p.queueJob(order)
	for range 5 { // one start, one per restart, one that found the guest on, and one with the guest off
		<-host.starts
	}
	stop()
	close(host.allowStart)
	p.startAgent(dir, host, host.Host)
	order.ID, order.Epoch = "", 9
	if f := p.runJob(order); f.Outcome != wire.Done || f.VM.Power != fleet.Running || len(host.shutdowns) != 3 {
		t.Errorf("after the cut: %+v; %d shut down", f, len(host.shutdowns))
	}
}

// A guest that does not power off keeps running, and its restart fails with that error.
func TestRestartFailsWhenGuestStaysOn(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM(mock.NoShutdown)
	f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	if f.Outcome != wire.Done {
		t.Fatalf("start: %+v", f)
	}
	r := p.runJob(wire.Work{Kind: fleet.VMRestart, VM: vm, Epoch: 2, Args: fleet.JobArgs{Run: f.VM.StartedAt}})
	if r.Outcome != wire.Failed || !strings.Contains(r.Error, "did not power off") || r.VM.Power != fleet.Running || !r.VM.StartedAt.Equal(*f.VM.StartedAt) {
		t.Errorf("restart: %+v", r)
	}
}

var _ hypervisor.Hypervisor = (*restartCounter)(nil)
