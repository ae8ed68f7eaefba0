package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// The age of VM states grows while the hypervisor is offline, in heartbeats too. An agent that never reached the
// hypervisor reports an unknown age.
func TestReportsContainAgeOfVMStates(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	_, stop := p.running(dir, host, host)
	p.do(wire.Work{Kind: fleet.VMStart, VM: newVM("web")})
	p.stateSince(0, "the VM", func(s wire.State) bool { return len(s.VMs) == 1 })
	plug := host.Unplug()
	p.stateSince(0, "the loss", func(s wire.State) bool { return !s.Host.Connected && len(s.VMs) == 1 })
	newest := func(ok func(wire.Report) bool) func() bool {
		return func() bool { return len(p.reports) > 0 && ok(p.reports[len(p.reports)-1]) }
	}
	p.wait("a heartbeat with an old look", newest(func(r wire.Report) bool {
		return r.State == nil && time.Duration(r.StateAgeMs)*time.Millisecond > 500*time.Millisecond
	}))
	stop()
	p.set(func() { p.reports = nil })
	p.running(dir, host, host)
	p.wait("reports of an agent that has seen nothing", func() bool { return len(p.reports) >= 3 })
	p.set(func() {
		for _, r := range p.reports {
			if r.StateAgeMs < wire.NeverRead.Milliseconds() {
				t.Errorf("without a look, the age is %d ms", r.StateAgeMs)
			}
		}
	})
	plug()
	p.stateSince(0, "the return", func(s wire.State) bool { return s.Host.Connected })
	p.wait("a fresh look", newest(func(r wire.Report) bool {
		return r.StateAgeMs > 0 && time.Duration(r.StateAgeMs)*time.Millisecond < patience
	}))
}

func TestOnlyUnansweredHypervisorCallsAreRetried(t *testing.T) {
	t.Parallel()
	p, host := atWork(t)
	plug := host.Unplug()
	for i, kind := range []fleet.JobKind{fleet.VMApply, fleet.VMStart, fleet.VMStop, fleet.VMReset, fleet.VMPause} {
		f := p.do(wire.Work{Kind: kind, VM: newVM("web"), Epoch: int64(1 + i)})
		if f.Outcome != wire.Failed || f.Retry == kind.SingleShot(fleet.JobArgs{}) {
			t.Errorf("%s of a hypervisor that is away ended %+v", kind, f)
		}
	}
	plug()
	if f := p.do(wire.Work{Kind: fleet.VMStart, VM: newVM(mock.HangStart)}); f.Outcome != wire.Failed || !f.Retry {
		t.Errorf("a start that never ended: %+v", f)
	}
	for _, w := range []wire.Work{
		{Kind: fleet.VMStart, VM: newVM(mock.FailStart)}, {Kind: fleet.VMApply, VM: newVM(mock.FailCreate)}, {Kind: fleet.VMPause, VM: newVM("nobody")},
	} {
		if f := p.do(w); f.Outcome != wire.Failed || f.Retry {
			t.Errorf("%s that was refused: %+v", w.Kind, f)
		}
	}
}

func (p *portal) faults(id fleet.VMID, what string, ok func([]fleet.FaultCode) bool) {
	p.t.Helper()
	p.wait(what, func() bool {
		for _, r := range slices.Backward(p.reports) {
			if r.State == nil {
				continue
			}
			vm, here := vmIn(*r.State, id)
			var codes []fleet.FaultCode
			for _, f := range vm.Status.Faults {
				codes = append(codes, f.Code)
			}
			return here && ok(codes)
		}
		return false
	})
}

// A guest that was on before the host's reboot and is off after it has a fault; one that was off has none.
func TestGuestStoppedByHostRebootHasFault(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &rebooted{Host: mock.New(mock.Options{Name: "host-1"}), boot: "boot-1"}
	dir := p.join()
	on, off, orderly := newVM("on"), newVM("off"), newVM("orderly")
	_, stop := p.runningOn(dir, host)
	for _, vm := range []*fleet.VM{on, orderly} {
		p.do(wire.Work{Kind: fleet.VMStart, VM: vm})
	}
	p.do(wire.Work{Kind: fleet.VMApply, VM: off})
	p.do(wire.Work{Kind: fleet.VMStop, VM: orderly, Epoch: 2})
	none := func(codes []fleet.FaultCode) bool { return len(codes) == 0 }
	is := func(codes []fleet.FaultCode) bool { return slices.Equal(codes, []fleet.FaultCode{fleet.FaultRebooted}) }
	for _, vm := range []*fleet.VM{on, off, orderly} {
		p.faults(vm.ID, "before the reboot", none)
	}
	stop()
	host.boot = "boot-2"
	host.must(t, host.StopVM(t.Context(), on.ID))
	p.set(func() { p.reports = nil })
	_, stop = p.runningOn(dir, host)
	p.faults(on.ID, "the guest that was on", is)
	p.faults(off.ID, "the guest that was off", none)
	p.faults(orderly.ID, "the guest that was stopped", none)
	stop()
	p.set(func() { p.reports = nil })
	p.runningOn(dir, host)
	p.faults(on.ID, "the fault, after another start of the agent", is)
	if f := p.do(wire.Work{Kind: fleet.VMApply, VM: on, Epoch: 4}); len(f.VM.Faults) != 1 {
		t.Errorf("after an edit: %+v", f.VM)
	}
	if f := p.do(wire.Work{Kind: fleet.VMStop, VM: on, Epoch: 5}); len(f.VM.Faults) != 0 {
		t.Errorf("after an order to leave it off: %+v", f.VM)
	}
	p.faults(on.ID, "the end of the fault", none)
}

// rebooted is a host whose boot ID can change.
type rebooted struct {
	*mock.Host
	boot string
}

func (r *rebooted) Inventory(ctx context.Context) (fleet.Inventory, error) {
	inv, err := r.Host.Inventory(ctx)
	inv.BootID = r.boot
	return inv, err
}

func (r *rebooted) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
