package agent_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// runningVMWithDisk returns a running VM with a disk in a pool of the host, so that its file systems can be frozen.
func runningVMWithDisk(p *portal, name string) *fleet.VM {
	p.t.Helper()
	pool := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "pool-" + name, Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + name}}
	vm := newVM(name)
	vm.Spec.Disks = []fleet.Disk{{PoolID: pool.ID, Volume: name + ".qcow2", SizeBytes: 1 << 20}}
	if f := p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &pool}); f.Outcome != wire.Done {
		p.t.Fatalf("pool: %+v", f)
	}
	if f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm, Pools: []fleet.Pool{pool}}); f.Outcome != wire.Done {
		p.t.Fatalf("start: %+v", f)
	}
	return vm
}

func freezeJob(vm *fleet.VM, seconds int) wire.Work {
	return wire.Work{Kind: fleet.VMFreeze, VM: vm, Epoch: 2, Args: fleet.JobArgs{Guest: &fleet.GuestParams{Seconds: seconds}}}
}

// A guest stays frozen only for the requested time and only while the agent runs. If the agent ends early, the next one
// thaws the guest.
func TestFrozenGuestIsThawedAfterRequestedTime(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	vm := runningVMWithDisk(p, "web")
	if f := p.runJob(freezeJob(vm, 1)); f.Outcome != wire.Done || f.VM != nil {
		t.Fatalf("freeze: %+v", f)
	}
	p.waitUntil("the guest is thawed by itself", func() bool { return !host.GuestFrozen(vm.ID) })
	for _, seconds := range []int{0, -1, fleet.MaxFreeze + 1} {
		if f := p.runJob(freezeJob(vm, seconds)); f.Outcome != wire.Failed || host.GuestFrozen(vm.ID) {
			t.Errorf("for %d seconds: %+v", seconds, f)
		}
	}
	thaw := wire.Work{Kind: fleet.VMThaw, VM: vm, Epoch: 2}
	if f := p.runJob(freezeJob(vm, 600)); f.Outcome != wire.Done || !host.GuestFrozen(vm.ID) {
		t.Fatalf("freeze: %+v", f)
	}
	if f := p.runJob(thaw); f.Outcome != wire.Done || host.GuestFrozen(vm.ID) {
		t.Fatalf("thaw: %+v", f)
	}

	// An agent that is stopped thaws the guest. The test simulates a killed agent by restoring the old state file.
	p.runJob(freezeJob(vm, 600))
	kept, err := os.ReadFile(filepath.Join(dir, "memory.json"))
	if err != nil || !strings.Contains(string(kept), `"frozen"`) {
		t.Fatalf("the agent's record of a freeze: %s, %v", kept, err)
	}
	stop()
	if host.GuestFrozen(vm.ID) {
		t.Fatal("an agent that ended left a guest frozen")
	}
	if err := host.FreezeGuest(t.Context(), vm.ID); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.json"), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop = p.startAgent(dir, host, host)
	p.waitUntil("the next agent thaws", func() bool { return !host.GuestFrozen(vm.ID) })
	p.waitUntil("and forgets", func() bool {
		kept, err := os.ReadFile(filepath.Join(dir, "memory.json"))
		return err == nil && !strings.Contains(string(kept), `"frozen"`)
	})
	stop()
}

// thawFailer is a host whose guests fail to thaw.
type thawFailer struct {
	*mock.Host
	failThaw atomic.Bool
}

func (s *thawFailer) ThawGuest(ctx context.Context, id fleet.VMID) error {
	if s.failThaw.Load() {
		return hypervisor.NoGuestAgentAnswerError()
	}
	return s.Host.ThawGuest(ctx, id)
}

// A failed thaw is retried until it succeeds; a guest that powers off meanwhile is no longer frozen.
func TestFailedThawIsRetried(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &thawFailer{Host: mock.New(mock.Options{Name: "host-1"})}
	p.startAgent(p.join(), host, host.Host)
	vm, off := runningVMWithDisk(p, "web"), runningVMWithDisk(p, "db")
	host.failThaw.Store(true)
	p.runJob(freezeJob(vm, 1))
	p.runJob(freezeJob(off, 1))
	if f := p.runJob(wire.Work{Kind: fleet.VMThaw, VM: vm, Epoch: 2}); f.Outcome != wire.Failed || !host.GuestFrozen(vm.ID) {
		t.Fatalf("thaw: %+v", f)
	}
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: off, Epoch: 2})
	host.failThaw.Store(false)
	p.waitUntil("the guest is thawed", func() bool { return !host.GuestFrozen(vm.ID) })
}

// The portal sends the password, and only the guest stores it: neither the agent's files nor its messages contain it.
func TestPasswordIsStoredOnlyInGuest(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	p.startAgent(dir, host, host)
	const secret = "correct horse"
	p.update(func() { p.secret = secret })
	vm := runningVMWithDisk(p, "web")
	order := func(user string) wire.Work {
		return wire.Work{Kind: fleet.VMPassword, VM: vm, Epoch: 2, Args: fleet.JobArgs{Guest: &fleet.GuestParams{User: user}}}
	}
	if f := p.runJob(order("root")); f.Outcome != wire.Done || host.GuestPassword(vm.ID, "root") != secret {
		t.Fatalf("set: %+v", f)
	}
	if f := p.runJob(order("-rf")); f.Outcome != wire.Failed || strings.Contains(f.Error, secret) {
		t.Errorf("for a user that is an option: %+v", f)
	}
	p.update(func() { p.secret = "two\nlines" })
	if f := p.runJob(order("root")); f.Outcome != wire.Failed || strings.Contains(f.Error, "lines") || host.GuestPassword(vm.ID, "root") != secret {
		t.Errorf("a password of two lines: %+v", f)
	}
	if f := p.runJob(wire.Work{Kind: fleet.VMPassword, VM: vm, Epoch: 2}); f.Outcome != wire.Failed {
		t.Errorf("without a user: %+v", f)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s has the password, or %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The values that a guest agent reports are sent once, together with the host's load. A failed guest command leaves no
// error on its VM.
func TestGuestAgentValuesAreReportedOnce(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.startAgent(p.join(), host, host)
	vm, silent := runningVMWithDisk(p, "web"), runningVMWithDisk(p, mock.NoAgent)
	p.waitUntil("what the guest says", func() bool {
		for _, r := range p.reports {
			for _, g := range r.Guests {
				if g.ID == silent.ID {
					t.Error("a guest that does not answer was reported")
				}
				if g.ID == vm.ID && len(g.FileSystems) == 2 {
					return true
				}
			}
		}
		return false
	})
	for _, kind := range []fleet.JobKind{fleet.VMFreeze, fleet.VMThaw, fleet.VMClock, fleet.VMTrim} {
		f := p.runJob(wire.Work{Kind: kind, VM: silent, Epoch: 2})
		if f.Outcome != wire.Failed || !strings.Contains(f.Error, "qemu-guest-agent") || f.VM != nil || f.Retry {
			t.Errorf("%s of a guest that does not answer: %+v", kind, f)
		}
		if f := p.runJob(wire.Work{Kind: kind, VM: vm, Epoch: 2}); f.Outcome != wire.Done {
			t.Errorf("%s: %+v", kind, f)
		}
	}
	s := p.waitNextState("the VM", func(s wire.State) bool { return len(s.VMs) == 2 })
	if r, _ := reportedVM(s, silent.ID); r.Status.Error != "" || len(r.Status.Faults) != 0 {
		t.Errorf("the VM whose guest failed reports %+v", r.Status)
	}
}
