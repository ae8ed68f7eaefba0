package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// maxConcurrentChecks limits the concurrent checks of a host; a guest has one at a time, so a slow guest blocks only
// one slot.
const maxConcurrentChecks = 8

// healthChecker runs health checks and acts on guests that fail. Its state is lost when the agent restarts, except the
// number of actions, which is in the state file.
type healthChecker struct {
	mu      sync.Mutex
	byVM    map[fleet.VMID]*checkedVM
	running int
	work    sync.WaitGroup
}

// checkedVM is a VM with health checks.
type checkedVM struct {
	checking     bool
	runStart     time.Time // start of the guest's run, as reported by the host
	graceStart   time.Time // start of the guest's grace period
	lastActionAt time.Time // time of the host's last action
	healthySince time.Time // since when no check fails; zero: some check fails
	checks       []*healthCheckState
}

// healthCheckState is the state of one check of a guest.
type healthCheckState struct {
	fleet.HealthState
	dueAt          time.Time
	failures       int
	lastResultMark string
}

// healthLoop runs due checks until ctx ends.
func (a *Agent) healthLoop(ctx context.Context) {
	if _, err := a.inventory.wait(ctx); err != nil {
		return
	}
	for ctx.Err() == nil {
		a.startDueHealthChecks(ctx, time.Now())
		sleepContext(ctx, a.timing.policyInterval)
	}
	a.health.work.Wait()
}

// startDueHealthChecks starts the checks that are due, longest overdue first. It waits for none of them.
func (a *Agent) startDueHealthChecks(ctx context.Context, now time.Time) {
	all, busy, boot := a.state.vmsWithHealthChecks(), a.running.subjects(), a.bootID()
	j := &a.health
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.byVM {
		if k, there := all[id]; !j.byVM[id].checking && (!there || k.OnInBoot != boot && k.RestartBoot == "") {
			delete(j.byVM, id) // the guest is off or has no checks any more
		}
	}
	type dueCheck struct {
		id fleet.VMID
		p  *checkedVM
		c  *healthCheckState
	}
	var due []dueCheck
	for id, k := range all {
		if busy[fleet.SubjectVM(id)] {
			continue
		}
		p := j.checkedVMOf(id, k, now)
		switch {
		case p.checking:
		case k.RestartBoot != "":
			if now.Sub(p.lastActionAt) >= a.timing.restartDelayMin || p.lastActionAt.IsZero() {
				due = append(due, dueCheck{id, p, nil})
			}
		case k.OnInBoot == boot:
			next := slices.MinFunc(p.checks, func(x, y *healthCheckState) int { return x.dueAt.Compare(y.dueAt) })
			if !now.Before(next.dueAt) {
				due = append(due, dueCheck{id, p, next})
			}
		}
	}
	slices.SortFunc(due, func(x, y dueCheck) int {
		at := func(d dueCheck) (t time.Time) {
			if d.c != nil {
				t = d.c.dueAt
			}
			return t
		}
		return cmp.Or(at(x).Compare(at(y)), cmp.Compare(x.id, y.id))
	})
	for _, d := range due[:min(len(due), max(0, maxConcurrentChecks-j.running))] {
		d.p.checking = true
		j.running++
		j.work.Go(func() {
			if d.c == nil {
				a.restartUnhealthyVM(ctx, d.id, d.p)
			} else {
				a.runHealthCheck(ctx, d.id, d.p, d.c)
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			d.p.checking = false
			j.running--
		})
	}
}

// checkedVMOf returns the VM's entry with its current checks. j.mu must be held.
func (j *healthChecker) checkedVMOf(id fleet.VMID, k vmState, now time.Time) *checkedVM {
	if j.byVM == nil {
		j.byVM = map[fleet.VMID]*checkedVM{}
	}
	p := j.byVM[id]
	if p == nil {
		p = &checkedVM{graceStart: now}
		j.byVM[id] = p
	}
	same := len(p.checks) == len(k.Checks)
	for i := range p.checks {
		same = same && p.checks[i].Check == k.Checks[i]
	}
	if same || p.checking {
		return p
	}
	had := p.checks
	p.checks = nil
	for _, c := range k.Checks[:min(len(k.Checks), fleet.MaxHealthChecks)] {
		i := slices.IndexFunc(had, func(o *healthCheckState) bool { return o.Check == c })
		if i < 0 {
			p.checks = append(p.checks, &healthCheckState{HealthState: fleet.HealthState{Check: c, State: fleet.HealthUnknown, Answer: "Not checked yet."}, dueAt: now})
			continue
		}
		p.checks = append(p.checks, had[i])
	}
	return p
}

// runHealthCheck runs one check. It reads the guest's state first, because an earlier read may be outdated.
func (a *Agent) runHealthCheck(ctx context.Context, id fleet.VMID, p *checkedVM, c *healthCheckState) {
	usual := c.Check.WithDefaults()
	fresh, err := a.readRunningVMStatus(ctx, id)
	var sign hypervisor.HealthCheckResult
	if err == nil && c.Check.Kind == fleet.HealthExec && !fresh.Policy.GuestExec {
		err = hypervisor.CannotCheckGuestError("The VM's policy does not allow programs to be run in the guest.")
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, time.Duration(usual.Timeout)*a.timing.healthCheckSecond)
		sign, err = a.hypervisor.CheckGuest(within, id, usual)
		if cause := within.Err(); cause != nil && err != nil && ctx.Err() == nil {
			err = errors.New("the guest did not answer in time")
		}
		cancel()
	}
	if ctx.Err() != nil {
		return
	}
	busy := a.running.subjects()[fleet.SubjectVM(id)]
	a.health.mu.Lock()
	outcome := healthCheckOutcome{result: sign, err: err, startedAt: fresh.StartedAt, busy: busy, at: time.Now()}
	changed := p.recordResult(c, outcome, a.timing.healthCheckSecond)
	calm, unhealthy := p.hasBeenHealthyFor(time.Now(), a.timing.restartResetPeriod), c.State == fleet.HealthFailing && c.failures > 0
	a.health.mu.Unlock()
	if calm {
		a.updateVMState(id, func(k *vmState) { k.HealthActions = 0 })
	}
	if unhealthy && !busy && c.Check.Action != fleet.HealthReport {
		changed = a.resetOrRestartUnhealthyVM(ctx, id, p, c) || changed
	}
	if changed {
		a.reports.triggerFull()
	}
}

// readRunningVMStatus reads the guest's state. A CannotCheckError means that the guest cannot be checked now.
func (a *Agent) readRunningVMStatus(ctx context.Context, id fleet.VMID) (fleet.VMStatus, error) {
	var status fleet.VMStatus
	err := a.withCallTimeout(ctx, func(ctx context.Context) (err error) {
		status, _, err = a.hypervisor.VM(ctx, id)
		return err
	})
	switch {
	case err != nil:
		return status, hypervisor.CannotCheckGuestError("The host's hypervisor does not answer.")
	case status.Power == fleet.Paused:
		return status, hypervisor.CannotCheckGuestError("The VM is paused.")
	case status.Power != fleet.Running:
		return status, hypervisor.CannotCheckGuestError("The VM is off.")
	case status.Guest != nil && status.Guest.Frozen:
		return status, hypervisor.CannotCheckGuestError("The guest's file systems are frozen.")
	}
	return status, nil
}

// healthCheckOutcome is the outcome of one run of a check.
type healthCheckOutcome struct {
	result    hypervisor.HealthCheckResult
	err       error      // reason why the guest failed the check or could not be checked; nil: it passed
	startedAt *time.Time // start of the guest's run, read before the check; nil: unknown
	busy      bool       // a job works on the VM, so the guest's answers do not count
	at        time.Time  // end of the run
}

// recordResult records the outcome of a check, and reports whether it must be sent to the portal. second is the unit of
// the check's times. The checker's lock must be held.
func (p *checkedVM) recordResult(c *healthCheckState, o healthCheckOutcome, second time.Duration) (changed bool) {
	usual := c.Check.WithDefaults()
	c.dueAt = o.at.Add(time.Duration(usual.Interval) * second)
	if o.busy {
		c.failures = 0
		return false
	}
	if o.startedAt != nil && !o.startedAt.Equal(p.runStart) {
		if !p.runStart.IsZero() {
			p.graceStart = o.at
		} else if o.startedAt.Before(p.graceStart) {
			p.graceStart = *o.startedAt // the guest started before the agent
		}
		p.runStart = *o.startedAt
		for _, other := range p.checks {
			other.lastResultMark, other.failures = "", 0
		}
	}
	was, err := c.lastResultMark, o.err
	c.lastResultMark = cmp.Or(o.result.ChangeMark, was)
	switch {
	case err != nil || was == "":
	case usual.Kind == fleet.HealthScreen && was == c.lastResultMark:
		err = errors.New("the screen has not changed")
	case usual.Kind == fleet.HealthWatchdog && was != c.lastResultMark:
		err = errors.New("the guest did not feed the watchdog")
	}
	var unsure hypervisor.CannotCheckGuestError
	next := c.HealthState
	switch {
	case errors.As(err, &unsure) || errors.Is(err, hypervisor.ErrUnreachable):
		next.State, next.Answer, c.failures = fleet.HealthUnknown, wire.SanitizeLine(err.Error(), fleet.MaxHealthAnswer), 0
	case err == nil:
		next.State, next.Answer, c.failures = fleet.Healthy, wire.SanitizeLine(o.result.Answer, fleet.MaxHealthAnswer), 0
	case o.at.Sub(p.graceStart) < time.Duration(usual.Grace)*second:
		c.failures = 0
	default:
		if c.failures++; c.failures >= usual.Threshold {
			next.State, next.Answer = fleet.HealthFailing, wire.SanitizeLine(err.Error(), fleet.MaxHealthAnswer)
		}
	}
	if changed = next.State != c.State; changed {
		at := o.at.UTC().Truncate(time.Second)
		next.Since = &at
		c.HealthState = next
	}
	return changed
}

// hasBeenHealthyFor reports whether all checks of the guest have passed for a while since the host's last action on
// it.
func (p *checkedVM) hasBeenHealthyFor(now time.Time, calm time.Duration) bool {
	if slices.ContainsFunc(p.checks, func(c *healthCheckState) bool { return c.State == fleet.HealthFailing || c.failures > 0 }) {
		p.healthySince = time.Time{}
		return false
	}
	if p.healthySince.IsZero() {
		p.healthySince = now
	}
	return !p.lastActionAt.IsZero() && now.Sub(p.healthySince) > calm
}

// resetOrRestartUnhealthyVM acts on a guest that fails a check, unless the last action was too recent or the limit is
// reached. It records the action before it acts.
func (a *Agent) resetOrRestartUnhealthyVM(ctx context.Context, id fleet.VMID, p *checkedVM, c *healthCheckState) bool {
	k, known := a.state.vmsWithHealthChecks()[id]
	a.health.mu.Lock()
	wait := !p.lastActionAt.IsZero() && time.Since(p.lastActionAt) < restartDelay(k.HealthActions, a.timing.restartDelayMin, a.timing.restartDelayMax)
	run := p.runStart
	a.health.mu.Unlock()
	if !known || k.RestartBoot != "" || k.StopRequested || k.HealthActions >= fleet.MaxHealthActions || wait {
		return false
	}
	fresh, err := a.readRunningVMStatus(ctx, id) // a user may have forced the VM off or paused it during the check
	if err != nil || fresh.StartedAt != nil && !fresh.StartedAt.Equal(run) || a.running.subjects()[fleet.SubjectVM(id)] {
		return false
	}
	boot := a.bootID()
	if err := a.state.updateVM(id, func(k *vmState) {
		if k.HealthActions++; c.Check.Action == fleet.HealthRestart {
			k.RestartBoot, k.RestartAt = boot, time.Now()
		}
	}); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
		return false
	}
	a.log.Info("A guest fails a health check.", "vm", k.Name, "check", c.Check.TargetText(), "said", c.Answer, "action", c.Check.Action, "time", k.HealthActions+1)
	a.health.mu.Lock()
	p.lastActionAt, p.graceStart, p.healthySince = time.Now(), time.Now(), time.Time{}
	for _, o := range p.checks {
		o.failures, o.lastResultMark = 0, ""
	}
	a.health.mu.Unlock()
	if c.Check.Action == fleet.HealthRestart {
		a.restartUnhealthyVM(ctx, id, p)
		return true
	}
	if err := a.withCallTimeout(ctx, func(ctx context.Context) error { return a.hypervisor.ResetVM(ctx, id) }); err != nil {
		a.log.Warn("A guest that fails a health check could not be reset.", "vm", k.Name, "error", err)
	}
	return true
}

// restartUnhealthyVM forces the unhealthy guest off and starts it again. If this is interrupted, the next round of checks
// or the next agent finishes the restart.
func (a *Agent) restartUnhealthyVM(ctx context.Context, id fleet.VMID, p *checkedVM) {
	a.health.mu.Lock()
	p.lastActionAt = time.Now()
	a.health.mu.Unlock()
	k, known := a.state.vmsWithHealthChecks()[id]
	if !known || k.RestartBoot == "" || a.running.subjects()[fleet.SubjectVM(id)] {
		return
	}
	var status fleet.VMStatus
	err := a.withCallTimeout(ctx, func(ctx context.Context) (err error) {
		status, _, err = a.hypervisor.VM(ctx, id)
		return err
	})
	over := k.RestartBoot != a.bootID() || status.Power == fleet.Paused || status.Power == fleet.Absent ||
		// The guest's run began after the pending restart did, or at an unknown time: the VM was already restarted.
		status.Power == fleet.Running && (status.StartedAt == nil || status.StartedAt.After(k.RestartAt))
	switch {
	case err != nil:
		return
	case over:
		a.updateVMState(id, func(k *vmState) { k.RestartBoot = "" })
		return
	case status.Power == fleet.Running:
		if err := a.withCallTimeout(ctx, func(ctx context.Context) error { return a.hypervisor.StopVM(ctx, id) }); err != nil {
			a.log.Warn("A guest that fails a health check could not be forced off.", "vm", k.Name, "error", err)
			return
		}
	}
	if k, known = a.state.vmsWithHealthChecks()[id]; !known || k.RestartBoot == "" || a.running.subjects()[fleet.SubjectVM(id)] {
		return // a user wants the VM off
	}
	err = a.startVMByPolicy(ctx, id)
	a.updateVMState(id, func(k *vmState) {
		switch {
		case err == nil:
			k.OnInBoot, k.StoppedBy, k.StartError, k.RestartBoot = a.bootID(), "", "", ""
		case k.RestartBoot != "":
			k.StartError = err.Error()
		}
	})
	a.reports.triggerFull()
}

func (a *Agent) updateVMState(id fleet.VMID, change func(*vmState)) {
	if err := a.state.updateVM(id, change); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
}

// addToStatus adds the states of the health checks to a status.
func (j *healthChecker) addToStatus(id fleet.VMID, status *fleet.VMStatus, acted int) {
	if status.Health = nil; len(status.Checks) == 0 || isOff(status.Power) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range status.Checks {
		out := fleet.HealthState{Check: c, State: fleet.HealthUnknown, Answer: "Not checked yet."}
		if p := j.byVM[id]; p != nil {
			if i := slices.IndexFunc(p.checks, func(o *healthCheckState) bool { return o.Check == c }); i >= 0 {
				out = p.checks[i].HealthState
			}
		}
		switch {
		case status.Power == fleet.Paused:
			out.State, out.Answer, out.Since = fleet.HealthUnknown, "The VM is paused.", nil
		case status.Guest != nil && status.Guest.Frozen:
			out.State, out.Answer, out.Since = fleet.HealthUnknown, "The guest's file systems are frozen.", nil
		}
		out.Actions = acted
		status.Health = append(status.Health, out)
	}
	if f := fleet.HealthFault(status.Health); f != nil {
		status.Faults = append(slices.Clone(status.Faults), *f)
	}
}
