package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// unhealthyHost is a host that records actions on guests and can delay their answers.
type unhealthyHost struct {
	*counted
	more   sync.Mutex
	acts   []string
	hangs  map[fleet.VMID]bool
	checks map[fleet.VMID]int
}

func newUnhealthyHost() *unhealthyHost {
	return &unhealthyHost{counted: newCounted(), hangs: map[fleet.VMID]bool{}, checks: map[fleet.VMID]int{}}
}

func (s *unhealthyHost) did(act string) {
	s.more.Lock()
	defer s.more.Unlock()
	s.acts = append(s.acts, act)
}

func (s *unhealthyHost) done() []string {
	s.more.Lock()
	defer s.more.Unlock()
	return slices.Clone(s.acts)
}

func (s *unhealthyHost) asked(id fleet.VMID) int {
	s.more.Lock()
	defer s.more.Unlock()
	return s.checks[id]
}

func (s *unhealthyHost) StopVM(ctx context.Context, id fleet.VMID) error {
	s.did("stop")
	return s.counted.StopVM(ctx, id)
}

func (s *unhealthyHost) StartVM(ctx context.Context, id fleet.VMID) error {
	s.did("start")
	return s.counted.StartVM(ctx, id)
}

func (s *unhealthyHost) ResetVM(ctx context.Context, id fleet.VMID) error {
	s.did("reset")
	return s.counted.ResetVM(ctx, id)
}

func (s *unhealthyHost) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.CheckResult, error) {
	s.more.Lock()
	s.checks[id]++
	hangs := s.hangs[id]
	s.more.Unlock()
	if hangs {
		<-ctx.Done()
		return hypervisor.CheckResult{}, ctx.Err()
	}
	return s.counted.CheckGuest(ctx, id, check)
}

func checked(name string, all ...fleet.HealthCheck) *fleet.VM {
	vm := newVM(name)
	vm.Spec.Health = all
	return vm
}

// health waits until the host reports a matching status of the VM's first check.
func (p *portal) health(vm *fleet.VM, what string, ok func(fleet.VMStatus) bool) {
	p.t.Helper()
	p.stateSince(0, vm.Name+" "+what, func(s wire.State) bool {
		r, there := vmIn(s, vm.ID)
		return there && len(r.Status.Health) > 0 && ok(r.Status)
	})
}

func is(want fleet.Health) func(fleet.VMStatus) bool {
	return func(s fleet.VMStatus) bool { return s.Health[0].State == want }
}

var port = fleet.HealthCheck{Kind: fleet.HealthHTTP, Interval: 5, Threshold: 2, Grace: 5}

func (p *portal) sickly(t *testing.T, vms ...*fleet.VM) (*unhealthyHost, func()) {
	host := newUnhealthyHost()
	_, stop := p.running(p.join(), host, host)
	for _, vm := range vms {
		vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}
		p.do(wire.Work{Kind: fleet.VMStart, VM: vm})
	}
	return host, stop
}

// A failing guest is reported with its answer until it is healthy again. A check without an action does not touch the
// guest.
func TestHealthIsReportedWithoutAction(t *testing.T) {
	t.Parallel()
	p, vm := newPortal(t), checked("web", port)
	host, _ := p.sickly(t, vm)
	p.health(vm, "healthy", is(fleet.Healthy))
	host.SetSick(vm.ID, fleet.HealthHTTP, true)
	p.health(vm, "failing", func(s fleet.VMStatus) bool {
		return is(fleet.HealthFailing)(s) && strings.Contains(s.Health[0].Answer, "503") && s.Health[0].Since != nil &&
			slices.ContainsFunc(s.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultHealth && strings.Contains(f.Text, "503") })
	})
	from := p.reportCount()
	host.SetSick(vm.ID, fleet.HealthHTTP, false)
	p.stateSince(from, "well again", func(s wire.State) bool {
		r, _ := vmIn(s, vm.ID)
		return len(r.Status.Health) > 0 && is(fleet.Healthy)(r.Status) && len(r.Status.Faults) == 0
	})
	if acts := host.done(); !slices.Equal(acts, []string{"start"}) {
		t.Errorf("the actions on the guest are %q", acts)
	}
}

// Actions on an unhealthy guest stop after the limit. After that the guest is only reported.
func TestUnhealthyGuestIsResetUpToLimit(t *testing.T) {
	t.Parallel()
	check := port
	check.Action = fleet.HealthReset
	p, vm := newPortal(t), checked("sick-web", check)
	host, _ := p.sickly(t, vm)
	p.health(vm, "given up", func(s fleet.VMStatus) bool {
		return is(fleet.HealthFailing)(s) && s.Health[0].Actions == fleet.MaxHealthActions
	})
	before := host.asked(vm.ID)
	p.wait("it is asked on", func() bool { return host.asked(vm.ID) > before+40 })
	resets := 0
	for _, act := range host.done() {
		if act == "reset" {
			resets++
		}
	}
	if resets != fleet.MaxHealthActions {
		t.Errorf("it was reset %d times", resets)
	}
}

// An unhealthy guest is restarted, also by the next agent after an interrupted restart, and while the portal is
// offline.
func TestUnhealthyGuestIsRestarted(t *testing.T) {
	t.Parallel()
	check := port
	check.Action = fleet.HealthRestart
	p, vm := newPortal(t), checked("web", check)
	host := newUnhealthyHost()
	dir := p.join()
	_, stop := p.running(dir, host, host)
	vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}
	p.do(wire.Work{Kind: fleet.VMStart, VM: vm})
	p.health(vm, "healthy", is(fleet.Healthy))
	p.set(func() { p.refuse["report"], p.refuse["hello"], p.refuse["claim"] = 503, 503, 503 })
	host.SetSick(vm.ID, fleet.HealthHTTP, true)
	host.mu.Lock()
	host.broken[vm.ID] = true // it is forced off and does not start again
	host.mu.Unlock()
	p.wait("it is off", func() bool { return host.power(vm.ID) == fleet.Stopped })
	stop()
	host.mu.Lock()
	host.broken[vm.ID] = false
	host.mu.Unlock()
	host.SetSick(vm.ID, fleet.HealthHTTP, false)
	p.running(dir, host, host)
	p.wait("it is back", func() bool { return host.power(vm.ID) == fleet.Running })
}

// A guest that a user powered off stays off, and a paused or frozen guest is not checked.
func TestPausedAndStoppedGuestsAreNotChecked(t *testing.T) {
	t.Parallel()
	check := port
	check.Action = fleet.HealthRestart
	p, off, paused := newPortal(t), checked("off", check), checked("paused", check)
	host, _ := p.sickly(t, off, paused)
	p.health(off, "healthy", is(fleet.Healthy))
	p.health(paused, "healthy", is(fleet.Healthy))
	p.do(wire.Work{Kind: fleet.VMStop, VM: off, Epoch: 2})
	p.do(wire.Work{Kind: fleet.VMPause, VM: paused, Epoch: 2})
	host.SetSick(off.ID, fleet.HealthHTTP, true)
	host.SetSick(paused.ID, fleet.HealthHTTP, true)
	p.health(paused, "not checked", func(s fleet.VMStatus) bool {
		return is(fleet.HealthUnknown)(s) && strings.Contains(s.Health[0].Answer, "paused") && len(s.Faults) == 0
	})
	before := host.asked(paused.ID)
	well := checked("well", port)
	well.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:02"}}
	p.do(wire.Work{Kind: fleet.VMStart, VM: well})
	p.wait("others are asked", func() bool { return host.asked(well.ID) > 5 })
	if n := host.asked(paused.ID); n > before+1 || host.power(off.ID) != fleet.Stopped || host.power(paused.ID) != fleet.Paused {
		t.Errorf("asked %d times while paused, %s, %s", n-before, host.power(off.ID), host.power(paused.ID))
	}
}

// Guests that never answer delay no other guest.
func TestSlowGuestDelaysNoOtherHealthCheck(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	var slow []*fleet.VM
	for _, name := range []string{"a", "b", "c", "d"} {
		slow = append(slow, checked(name, fleet.HealthCheck{Kind: fleet.HealthAgent, Interval: 60, Timeout: 60, Grace: 5}))
	}
	quick := checked("quick", port)
	host, _ := p.sickly(t, append(slow, quick)...)
	host.more.Lock()
	for _, vm := range slow {
		host.hangs[vm.ID] = true
	}
	host.more.Unlock()
	p.health(quick, "healthy", is(fleet.Healthy))
	p.health(slow[0], "failing", func(s fleet.VMStatus) bool {
		return is(fleet.HealthFailing)(s) && strings.Contains(s.Health[0].Answer, "in time")
	})
}
