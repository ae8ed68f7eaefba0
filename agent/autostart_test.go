package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// counted is a host that records the IDs of started guests in order.
type counted struct {
	rebooted
	mu      sync.Mutex
	started []fleet.VMID
	broken  map[fleet.VMID]bool
}

func (c *counted) StartVM(ctx context.Context, id fleet.VMID) error {
	c.mu.Lock()
	c.started = append(c.started, id)
	broken := c.broken[id]
	c.mu.Unlock()
	if broken {
		return errors.New("its storage is not there yet")
	}
	return c.Host.StartVM(ctx, id)
}

func (c *counted) startCount(id fleet.VMID) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.started {
		if s == id {
			n++
		}
	}
	return n
}

func newCounted() *counted {
	return &counted{rebooted: rebooted{Host: mock.New(mock.Options{Name: "host-1"}), boot: "boot-1"}, broken: map[fleet.VMID]bool{}}
}

func (p *portal) startAgentOnRecorder(dir string, host *counted) (stop func()) {
	_, stop = p.startAgent(dir, host, host)
	return stop
}

func (c *counted) powerOf(id fleet.VMID) fleet.Power {
	s, _, err := c.VM(context.Background(), id)
	if err != nil {
		return ""
	}
	return s.Power
}

func vmWithPolicy(name string, p fleet.VMPolicy) *fleet.VM {
	vm := newVM(name)
	vm.Spec.Policy = p
	return vm
}

// waitReportedOn waits until the host reports the VM on, with its policy.
func (p *portal) waitReportedOn(host *counted, vm *fleet.VM) {
	p.t.Helper()
	p.waitStateSince(0, vm.Name+" on", func(s wire.State) bool {
		r, ok := reportedVM(s, vm.ID)
		return ok && r.Status.Power == fleet.Running && r.Status.Policy == vm.Spec.Policy
	})
}

// A guest that powers off without a request is restarted by its policy. A guest that a user powered off stays off,
// through Quantix or on the host.
func TestStoppedGuestsAreRestartedByPolicy(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	p.startAgentOnRecorder(p.join(), host)
	never, failing, always := vmWithPolicy("never", fleet.VMPolicy{Autostart: "on"}), vmWithPolicy("failing", fleet.VMPolicy{Restart: "onFailure"}), vmWithPolicy("always", fleet.VMPolicy{Restart: "always"})
	all := []*fleet.VM{never, failing, always}
	for _, vm := range all {
		p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
		p.waitReportedOn(host, vm)
	}
	for _, vm := range all {
		host.PowerOffGuest(vm.ID, true)
	}
	p.waitUntil("those that crashed are started again", func() bool {
		return host.powerOf(failing.ID) == fleet.Running && host.powerOf(always.ID) == fleet.Running
	})
	if host.powerOf(never.ID) != fleet.Crashed || host.startCount(never.ID) != 1 {
		t.Error("a guest that nobody wants back was started")
	}
	for _, vm := range all {
		if vm != never {
			p.waitStateSince(0, "the count", func(s wire.State) bool {
				r, ok := reportedVM(s, vm.ID)
				return ok && r.Status.Restarts == 1 && r.Status.Power == fleet.Running && len(r.Status.Faults) == 0
			})
		}
	}

	host.PowerOffGuest(failing.ID, false)
	host.PowerOffGuest(always.ID, false)
	p.waitUntil("the one that is always on is back", func() bool { return host.powerOf(always.ID) == fleet.Running })
	if host.powerOf(failing.ID) != fleet.Stopped {
		t.Error("a guest that was shut down from within was started, though it did not fail")
	}

	// A user can power the guest off through Quantix, by a shutdown in the guest, or on the host. The guest then stays
	// off.
	p.waitStateSince(0, "it is seen on", func(s wire.State) bool {
		r, _ := reportedVM(s, always.ID)
		return r.Status.Power == fleet.Running && r.Status.Restarts == 2
	})
	before := host.startCount(always.ID)
	if f := p.runJob(wire.Work{Kind: fleet.VMShutdown, VM: always, Epoch: 2}); f.Outcome != wire.Done {
		t.Fatalf("shutdown: %+v", f)
	}
	host.stopError(t, host.Host.StartVM(t.Context(), never.ID))
	p.waitNextState("the world after", func(s wire.State) bool { r, _ := reportedVM(s, never.ID); return r.Status.Power == fleet.Running })
	if host.powerOf(always.ID) != fleet.Stopped || host.startCount(always.ID) != before {
		t.Error("a guest that a user shut down was started again")
	}
	// A forced stop cancels a pending restart.
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: always, Epoch: 3})
	p.waitReportedOn(host, always)
	host.broken[always.ID] = true
	host.PowerOffGuest(always.ID, true)
	p.waitStateSince(0, "why it is not back", func(s wire.State) bool {
		r, _ := reportedVM(s, always.ID)
		return slices.ContainsFunc(r.Status.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultRestart })
	})
	from := p.reportCount()
	if f := p.runJob(wire.Work{Kind: fleet.VMStop, VM: always, Epoch: 4}); f.Outcome != wire.Done {
		t.Fatalf("stop: %+v", f)
	}
	p.waitStateSince(from, "no trouble", func(s wire.State) bool { r, _ := reportedVM(s, always.ID); return len(r.Status.Faults) == 0 })
}

// A guest that powered off while no agent ran is restarted by the next agent, also without its portal.
func TestGuestsAreRestartedWithoutPortal(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	dir := p.join()
	stop := p.startAgentOnRecorder(dir, host)
	vm := vmWithPolicy("web", fleet.VMPolicy{Restart: "onFailure"})
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	p.waitReportedOn(host, vm)
	stop()
	host.PowerOffGuest(vm.ID, true)
	p.update(func() { p.refusals["hello"] = 503 })
	p.startAgentOnRecorder(dir, host)
	p.waitUntil("it is back", func() bool { return host.powerOf(vm.ID) == fleet.Running })
	host.PowerOffGuest(vm.ID, true)
	p.waitUntil("and again", func() bool { return host.startCount(vm.ID) >= 3 && host.powerOf(vm.ID) == fleet.Running })
}

// A host that boots starts its VMs in start order, each VM once, also without the portal. VMs that users powered off
// stay off.
func TestVMsAutostartOncePerHostBoot(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	dir := p.join()
	stop := p.startAgentOnRecorder(dir, host)
	on := fleet.VMPolicy{Autostart: "on"}
	third, second, first := vmWithPolicy("a-third", on), vmWithPolicy("b-second", fleet.VMPolicy{Autostart: "on", StartOrder: 2}), vmWithPolicy("c-first", fleet.VMPolicy{Autostart: "on", StartOrder: 1})
	was, wasNot, plain, late := vmWithPolicy("was", fleet.VMPolicy{Autostart: "last", StartOrder: 3}), vmWithPolicy("was-not", fleet.VMPolicy{Autostart: "last"}), newVM("plain"), vmWithPolicy("late", fleet.VMPolicy{Autostart: "on", StartOrder: 4})
	all := []*fleet.VM{third, second, first, was, wasNot, plain, late}
	for _, vm := range all {
		kind := fleet.VMApply
		if vm == was || vm == plain {
			kind = fleet.VMStart
		}
		p.runJob(wire.Work{Kind: kind, VM: vm})
	}
	p.waitStateSince(0, "all", func(s wire.State) bool { return len(s.VMs) == len(all) })
	p.waitReportedOn(host, was)
	stop()
	host.boot = "boot-2"
	for _, vm := range all {
		host.stopError(t, host.Host.StopVM(t.Context(), vm.ID))
	}
	host.started, host.broken[late.ID] = nil, true
	p.update(func() { p.refusals["hello"] = 503 })
	stop = p.startAgentOnRecorder(dir, host)
	want := []fleet.VMID{first.ID, second.ID, was.ID, late.ID, third.ID}
	p.waitUntil("they start", func() bool {
		host.mu.Lock()
		defer host.mu.Unlock()
		return len(host.started) >= len(want) && slices.Equal(host.started[:len(want)], want)
	})
	host.mu.Lock()
	host.broken[late.ID] = false
	host.mu.Unlock()
	p.waitUntil("the one whose storage came late, too", func() bool { return host.powerOf(late.ID) == fleet.Running })
	for _, vm := range []*fleet.VM{wasNot, plain} {
		if host.powerOf(vm.ID) == fleet.Running {
			t.Errorf("%s was started", vm.Name)
		}
	}
	stop()

	// In the same boot of the host, no VM autostarts a second time.
	host.stopError(t, host.Host.StopVM(t.Context(), first.ID))
	p.update(func() { delete(p.refusals, "hello") })
	before := host.startCount(first.ID)
	p.startAgentOnRecorder(dir, host)
	p.waitNextState("the world", func(s wire.State) bool { return len(s.VMs) == len(all) })
	if host.powerOf(first.ID) != fleet.Stopped || host.startCount(first.ID) != before {
		t.Error("the next agent started a VM that was forced off after the boot")
	}
}

// A guest that powers off only after its shutdown job has failed still stays off.
func TestGuestThatShutsDownAfterFailedJobStaysOff(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	p.startAgentOnRecorder(p.join(), host)
	late, other := vmWithPolicy(mock.NoShutdown, fleet.VMPolicy{Restart: "always"}), vmWithPolicy("other", fleet.VMPolicy{Restart: "always"})
	for _, vm := range []*fleet.VM{late, other} {
		p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
		p.waitReportedOn(host, vm)
	}
	if f := p.runJob(wire.Work{Kind: fleet.VMShutdown, VM: late, Epoch: 2}); f.Outcome != wire.Failed {
		t.Fatalf("shutdown: %+v", f)
	}
	host.PowerOffGuest(late.ID, false)
	p.waitStateSince(0, "it is seen off", func(s wire.State) bool { r, _ := reportedVM(s, late.ID); return r.Status.Power == fleet.Stopped })
	for n := range 2 { // each restart takes as long as a restart of the first VM would have taken
		host.PowerOffGuest(other.ID, false)
		p.waitUntil("another is back", func() bool { return host.powerOf(other.ID) == fleet.Running && host.startCount(other.ID) == n+2 })
		p.waitStateSince(0, "it is seen on", func(s wire.State) bool {
			r, _ := reportedVM(s, other.ID)
			return r.Status.Power == fleet.Running && r.Status.Restarts == n+1
		})
	}
	if host.powerOf(late.ID) != fleet.Stopped || host.startCount(late.ID) != 1 {
		t.Error("a guest that people shut down was started again")
	}
}

// A host that boots in maintenance starts its VMs only after the maintenance, also if the portal is offline at first.
func TestVMsDoNotAutostartDuringMaintenance(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	dir := p.join()
	stop := p.startAgentOnRecorder(dir, host)
	vm := vmWithPolicy("web", fleet.VMPolicy{Autostart: "on"})
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	p.waitReportedOn(host, vm)
	p.update(func() { p.maintenance = true })
	from := p.reportCount()
	p.waitUntil("reports in maintenance", func() bool { return len(p.reports) > from+2 })
	stop()
	host.boot = "boot-2"
	host.stopError(t, host.Host.StopVM(t.Context(), vm.ID))
	before := host.startCount(vm.ID)
	p.startAgentOnRecorder(dir, host)
	from = p.reportCount()
	p.waitUntil("reports after the boot", func() bool { return len(p.reports) > from+5 })
	if n := host.startCount(vm.ID); n != before {
		t.Errorf("the VM was started %d times in maintenance", n-before)
	}
	p.update(func() { p.maintenance = false })
	p.waitUntil("the start after maintenance", func() bool { return host.powerOf(vm.ID) == fleet.Running })
}
