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
	recordMu      sync.Mutex
	actions       []string
	hangingGuests map[fleet.VMID]bool
	checkCounts   map[fleet.VMID]int
}

func newUnhealthyHost() *unhealthyHost {
	return &unhealthyHost{counted: newCounted(), hangingGuests: map[fleet.VMID]bool{}, checkCounts: map[fleet.VMID]int{}}
}

func (s *unhealthyHost) recordAction(act string) {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	s.actions = append(s.actions, act)
}

func (s *unhealthyHost) recordedActions() []string {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	return slices.Clone(s.actions)
}

func (s *unhealthyHost) checkCount(id fleet.VMID) int {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	return s.checkCounts[id]
}

func (s *unhealthyHost) StopVM(ctx context.Context, id fleet.VMID) error {
	s.recordAction("stop")
	return s.counted.StopVM(ctx, id)
}

func (s *unhealthyHost) StartVM(ctx context.Context, id fleet.VMID) error {
	s.recordAction("start")
	return s.counted.StartVM(ctx, id)
}

func (s *unhealthyHost) ResetVM(ctx context.Context, id fleet.VMID) error {
	s.recordAction("reset")
	return s.counted.ResetVM(ctx, id)
}

func (s *unhealthyHost) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	s.recordMu.Lock()
	s.checkCounts[id]++
	hangs := s.hangingGuests[id]
	s.recordMu.Unlock()
	if hangs {
		<-ctx.Done()
		return hypervisor.HealthCheckResult{}, ctx.Err()
	}
	return s.counted.CheckGuest(ctx, id, check)
}

func vmWithHealthChecks(name string, all ...fleet.HealthCheck) *fleet.VM {
	vm := newVM(name)
	vm.Spec.Health = all
	return vm
}

// waitHealth waits until the host reports a matching status of the VM's first check.
func (p *portal) waitHealth(vm *fleet.VM, what string, ok func(fleet.VMStatus) bool) {
	p.t.Helper()
	p.waitStateSince(0, vm.Name+" "+what, func(s wire.State) bool {
		r, there := reportedVM(s, vm.ID)
		return there && len(r.Status.Health) > 0 && ok(r.Status)
	})
}

func hasHealth(want fleet.Health) func(fleet.VMStatus) bool {
	return func(s fleet.VMStatus) bool { return s.Health[0].State == want }
}

var httpCheck = fleet.HealthCheck{Kind: fleet.HealthHTTP, Interval: 5, Threshold: 2, Grace: 5}

func (p *portal) startAgentOnUnhealthyHost(t *testing.T, vms ...*fleet.VM) (*unhealthyHost, func()) {
	host := newUnhealthyHost()
	_, stop := p.startAgent(p.join(), host, host)
	for _, vm := range vms {
		vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}
		p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	}
	return host, stop
}

// A failing guest is reported with the result of its check until the guest is healthy again. A check without an action
// does not touch the guest.
func TestFailingHealthCheckWithoutActionIsReported(t *testing.T) {
	t.Parallel()
	p, vm := newPortal(t), vmWithHealthChecks("web", httpCheck)
	host, _ := p.startAgentOnUnhealthyHost(t, vm)
	p.waitHealth(vm, "healthy", hasHealth(fleet.Healthy))
	host.SetHealthCheckFailing(vm.ID, fleet.HealthHTTP, true)
	p.waitHealth(vm, "failing", func(s fleet.VMStatus) bool {
		return hasHealth(fleet.HealthFailing)(s) && strings.Contains(s.Health[0].Answer, "503") && s.Health[0].Since != nil &&
			slices.ContainsFunc(s.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultHealth && strings.Contains(f.Text, "503") })
	})
	from := p.reportCount()
	host.SetHealthCheckFailing(vm.ID, fleet.HealthHTTP, false)
	p.waitStateSince(from, "well again", func(s wire.State) bool {
		r, _ := reportedVM(s, vm.ID)
		return len(r.Status.Health) > 0 && hasHealth(fleet.Healthy)(r.Status) && len(r.Status.Faults) == 0
	})
	if acts := host.recordedActions(); !slices.Equal(acts, []string{"start"}) {
		t.Errorf("the actions on the guest are %q", acts)
	}
}

// Actions on an unhealthy guest stop after the limit. After that the guest is only reported.
func TestUnhealthyGuestIsResetUpToLimit(t *testing.T) {
	t.Parallel()
	check := httpCheck
	check.Action = fleet.HealthReset
	p, vm := newPortal(t), vmWithHealthChecks("sick-web", check)
	host, _ := p.startAgentOnUnhealthyHost(t, vm)
	p.waitHealth(vm, "given up", func(s fleet.VMStatus) bool {
		return hasHealth(fleet.HealthFailing)(s) && s.Health[0].Actions == fleet.MaxHealthActions
	})
	before := host.checkCount(vm.ID)
	p.waitUntil("it is asked on", func() bool { return host.checkCount(vm.ID) > before+40 })
	resets := 0
	for _, act := range host.recordedActions() {
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
	check := httpCheck
	check.Action = fleet.HealthRestart
	p, vm := newPortal(t), vmWithHealthChecks("web", check)
	host := newUnhealthyHost()
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	p.waitHealth(vm, "healthy", hasHealth(fleet.Healthy))
	p.update(func() { p.refusals["report"], p.refusals["hello"], p.refusals["claim"] = 503, 503, 503 })
	host.SetHealthCheckFailing(vm.ID, fleet.HealthHTTP, true)
	host.mu.Lock()
	host.broken[vm.ID] = true // it is forced off and does not start again
	host.mu.Unlock()
	p.waitUntil("it is off", func() bool { return host.powerOf(vm.ID) == fleet.Stopped })
	stop()
	host.mu.Lock()
	host.broken[vm.ID] = false
	host.mu.Unlock()
	host.SetHealthCheckFailing(vm.ID, fleet.HealthHTTP, false)
	p.startAgent(dir, host, host)
	p.waitUntil("it is back", func() bool { return host.powerOf(vm.ID) == fleet.Running })
}

// A guest that a user powered off stays off, and a paused or frozen guest is not checked.
func TestPausedAndStoppedGuestsGetNoHealthCheck(t *testing.T) {
	t.Parallel()
	check := httpCheck
	check.Action = fleet.HealthRestart
	p, off, paused := newPortal(t), vmWithHealthChecks("off", check), vmWithHealthChecks("paused", check)
	host, _ := p.startAgentOnUnhealthyHost(t, off, paused)
	p.waitHealth(off, "healthy", hasHealth(fleet.Healthy))
	p.waitHealth(paused, "healthy", hasHealth(fleet.Healthy))
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: off, Epoch: 2})
	p.runJob(wire.Work{Kind: fleet.VMPause, VM: paused, Epoch: 2})
	host.SetHealthCheckFailing(off.ID, fleet.HealthHTTP, true)
	host.SetHealthCheckFailing(paused.ID, fleet.HealthHTTP, true)
	p.waitHealth(paused, "not checked", func(s fleet.VMStatus) bool {
		return hasHealth(fleet.HealthUnknown)(s) && strings.Contains(s.Health[0].Answer, "paused") && len(s.Faults) == 0
	})
	before := host.checkCount(paused.ID)
	well := vmWithHealthChecks("well", httpCheck)
	well.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:02"}}
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: well})
	p.waitUntil("others are asked", func() bool { return host.checkCount(well.ID) > 5 })
	if n := host.checkCount(paused.ID); n > before+1 || host.powerOf(off.ID) != fleet.Stopped || host.powerOf(paused.ID) != fleet.Paused {
		t.Errorf("asked %d times while paused, %s, %s", n-before, host.powerOf(off.ID), host.powerOf(paused.ID))
	}
}

// Guests that never answer delay no other guest.
func TestSlowGuestDelaysNoOtherHealthCheck(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	var slow []*fleet.VM
	for _, name := range []string{"a", "b", "c", "d"} {
		slow = append(slow, vmWithHealthChecks(name, fleet.HealthCheck{Kind: fleet.HealthAgent, Interval: 60, Timeout: 60, Grace: 5}))
	}
	quick := vmWithHealthChecks("quick", httpCheck)
	host, _ := p.startAgentOnUnhealthyHost(t, append(slow, quick)...)
	host.recordMu.Lock()
	for _, vm := range slow {
		host.hangingGuests[vm.ID] = true
	}
	host.recordMu.Unlock()
	p.waitHealth(quick, "healthy", hasHealth(fleet.Healthy))
	p.waitHealth(slow[0], "failing", func(s fleet.VMStatus) bool {
		return hasHealth(fleet.HealthFailing)(s) && strings.Contains(s.Health[0].Answer, "in time")
	})
}
