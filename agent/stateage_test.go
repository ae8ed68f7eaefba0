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
	_, stop := p.startAgent(dir, host, host)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: newVM("web")})
	p.waitStateSince(0, "the VM", func(s wire.State) bool { return len(s.VMs) == 1 })
	plug := host.DisconnectLibvirt()
	p.waitStateSince(0, "the loss", func(s wire.State) bool { return !s.Host.Connected && len(s.VMs) == 1 })
	newest := func(ok func(wire.Report) bool) func() bool {
		return func() bool { return len(p.reports) > 0 && ok(p.reports[len(p.reports)-1]) }
	}
	p.waitUntil("a heartbeat with an old look", newest(func(r wire.Report) bool {
		return r.State == nil && time.Duration(r.StateAgeMs)*time.Millisecond > 500*time.Millisecond
	}))
	stop()
	p.update(func() { p.reports = nil })
	p.startAgent(dir, host, host)
	p.waitUntil("reports of an agent that has seen nothing", func() bool { return len(p.reports) >= 3 })
	p.update(func() {
		for _, r := range p.reports {
			if r.StateAgeMs < wire.NeverRead.Milliseconds() {
				t.Errorf("without a look, the age is %d ms", r.StateAgeMs)
			}
		}
	})
	plug()
	p.waitStateSince(0, "the return", func(s wire.State) bool { return s.Host.Connected })
	p.waitUntil("a fresh look", newest(func(r wire.Report) bool {
		return r.StateAgeMs > 0 && time.Duration(r.StateAgeMs)*time.Millisecond < waitTimeout
	}))
}

func TestOnlyUnansweredHypervisorCallsAreRetried(t *testing.T) {
	t.Parallel()
	p, host := newPortalWithAgent(t)
	plug := host.DisconnectLibvirt()
	for i, kind := range []fleet.JobKind{fleet.VMApply, fleet.VMStart, fleet.VMStop, fleet.VMReset, fleet.VMPause} {
		f := p.runJob(wire.Work{Kind: kind, VM: newVM("web"), Epoch: int64(1 + i)})
		if f.Outcome != wire.Failed || f.Retry == kind.IsSingleShot(fleet.JobArgs{}) {
			t.Errorf("%s of a hypervisor that is away ended %+v", kind, f)
		}
	}
	plug()
	if f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: newVM(mock.HangOnStart)}); f.Outcome != wire.Failed || !f.Retry {
		t.Errorf("a start that never ended: %+v", f)
	}
	for _, w := range []wire.Work{
		{Kind: fleet.VMStart, VM: newVM(mock.FailStart)}, {Kind: fleet.VMApply, VM: newVM(mock.FailCreate)}, {Kind: fleet.VMPause, VM: newVM("nobody")},
	} {
		if f := p.runJob(w); f.Outcome != wire.Failed || f.Retry {
			t.Errorf("%s that was refused: %+v", w.Kind, f)
		}
	}
}

func (p *portal) waitFaults(id fleet.VMID, what string, ok func([]fleet.FaultCode) bool) {
	p.t.Helper()
	p.waitUntil(what, func() bool {
		for _, r := range slices.Backward(p.reports) {
			if r.State == nil {
				continue
			}
			vm, here := reportedVM(*r.State, id)
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
	_, stop := p.startAgentOnRebootedHost(dir, host)
	for _, vm := range []*fleet.VM{on, orderly} {
		p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	}
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: off})
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: orderly, Epoch: 2})
	none := func(codes []fleet.FaultCode) bool { return len(codes) == 0 }
	is := func(codes []fleet.FaultCode) bool { return slices.Equal(codes, []fleet.FaultCode{fleet.FaultRebooted}) }
	for _, vm := range []*fleet.VM{on, off, orderly} {
		p.waitFaults(vm.ID, "before the reboot", none)
	}
	stop()
	host.boot = "boot-2"
	host.stopError(t, host.StopVM(t.Context(), on.ID))
	p.update(func() { p.reports = nil })
	_, stop = p.startAgentOnRebootedHost(dir, host)
	p.waitFaults(on.ID, "the guest that was on", is)
	p.waitFaults(off.ID, "the guest that was off", none)
	p.waitFaults(orderly.ID, "the guest that was stopped", none)
	stop()
	p.update(func() { p.reports = nil })
	p.startAgentOnRebootedHost(dir, host)
	p.waitFaults(on.ID, "the fault, after another start of the agent", is)
	if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: on, Epoch: 4}); len(f.VM.Faults) != 1 {
		t.Errorf("after an edit: %+v", f.VM)
	}
	if f := p.runJob(wire.Work{Kind: fleet.VMStop, VM: on, Epoch: 5}); len(f.VM.Faults) != 0 {
		t.Errorf("after an order to leave it off: %+v", f.VM)
	}
	p.waitFaults(on.ID, "the end of the fault", none)
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

func (r *rebooted) stopError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
