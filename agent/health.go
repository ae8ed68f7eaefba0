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

// checksAtOnce limits the concurrent checks of a host; a guest has one at a time, so a slow guest blocks only one slot.
const checksAtOnce = 8

// healthChecker runs health checks and acts on guests that fail. Its state is lost when the agent restarts, except the
// number of actions, which is in the state file.
type healthChecker struct {
	mu     sync.Mutex
	all    map[fleet.VMID]*checkedVM
	asking int
	work   sync.WaitGroup
}

// checkedVM is a VM with health checks.
type checkedVM struct {
	asking bool
	run    time.Time // start of the guest's run, as reported by the host
	since  time.Time // start of its grace period
	acted  time.Time // time of the host's last action
	calm   time.Time // since when no check fails; zero: some check fails
	checks []*checkState
}

// checkState is the state of one check of a guest.
type checkState struct {
	fleet.HealthState
	due   time.Time
	fails int
	mark  string
}

// healthLoop runs due checks until ctx ends.
func (a *Agent) healthLoop(ctx context.Context) {
	if _, err := a.inventory.wait(ctx); err != nil {
		return
	}
	for ctx.Err() == nil {
		a.startDueChecks(ctx, time.Now())
		pause(ctx, a.times.keep)
	}
	a.health.work.Wait()
}

// startDueChecks starts the checks that are due, longest overdue first. It waits for none of them.
func (a *Agent) startDueChecks(ctx context.Context, now time.Time) {
	all, busy, boot := a.state.checkedVMs(), a.running.busy(), a.bootID()
	j := &a.health
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.all {
		if k, there := all[id]; !j.all[id].asking && (!there || k.Ran != boot && k.Again == "") {
			delete(j.all, id) // the guest is off or has no checks any more
		}
	}
	type dueCheck struct {
		id fleet.VMID
		p  *checkedVM
		c  *checkState
	}
	var due []dueCheck
	for id, k := range all {
		if busy[fleet.SubjectVM(id)] {
			continue
		}
		p := j.of(id, k, now)
		switch {
		case p.asking:
		case k.Again != "":
			if now.Sub(p.acted) >= a.times.again || p.acted.IsZero() {
				due = append(due, dueCheck{id, p, nil})
			}
		case k.Ran == boot:
			next := slices.MinFunc(p.checks, func(x, y *checkState) int { return x.due.Compare(y.due) })
			if !now.Before(next.due) {
				due = append(due, dueCheck{id, p, next})
			}
		}
	}
	slices.SortFunc(due, func(x, y dueCheck) int {
		at := func(d dueCheck) (t time.Time) {
			if d.c != nil {
				t = d.c.due
			}
			return t
		}
		return cmp.Or(at(x).Compare(at(y)), cmp.Compare(x.id, y.id))
	})
	for _, d := range due[:min(len(due), max(0, checksAtOnce-j.asking))] {
		d.p.asking = true
		j.asking++
		j.work.Go(func() {
			if d.c == nil {
				a.restartUnhealthy(ctx, d.id, d.p)
			} else {
				a.runCheck(ctx, d.id, d.p, d.c)
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			d.p.asking = false
			j.asking--
		})
	}
}

// of returns the VM's entry with its current checks. j.mu must be held.
func (j *healthChecker) of(id fleet.VMID, k vmState, now time.Time) *checkedVM {
	if j.all == nil {
		j.all = map[fleet.VMID]*checkedVM{}
	}
	p := j.all[id]
	if p == nil {
		p = &checkedVM{since: now}
		j.all[id] = p
	}
	same := len(p.checks) == len(k.Checks)
	for i := range p.checks {
		same = same && p.checks[i].Check == k.Checks[i]
	}
	if same || p.asking {
		return p
	}
	had := p.checks
	p.checks = nil
	for _, c := range k.Checks[:min(len(k.Checks), fleet.MaxHealthChecks)] {
		i := slices.IndexFunc(had, func(o *checkState) bool { return o.Check == c })
		if i < 0 {
			p.checks = append(p.checks, &checkState{HealthState: fleet.HealthState{Check: c, State: fleet.HealthUnsure, Said: "Not checked yet."}, due: now})
			continue
		}
		p.checks = append(p.checks, had[i])
	}
	return p
}

// runCheck runs one check. It reads the guest's state first, because an earlier read may be outdated.
func (a *Agent) runCheck(ctx context.Context, id fleet.VMID, p *checkedVM, c *checkState) {
	usual := c.Check.Usual()
	fresh, err := a.readGuest(ctx, id)
	var sign hypervisor.Sign
	if err == nil && c.Check.Kind == fleet.HealthExec && !fresh.Policy.GuestExec {
		err = hypervisor.Unsure("The VM's policy does not allow programs to be run in the guest.")
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, time.Duration(usual.Timeout)*a.times.second)
		sign, err = a.hypervisor.CheckGuest(within, id, usual)
		if cause := within.Err(); cause != nil && err != nil && ctx.Err() == nil {
			err = errors.New("the guest did not answer in time")
		}
		cancel()
	}
	if ctx.Err() != nil {
		return
	}
	busy := a.running.busy()[fleet.SubjectVM(id)]
	a.health.mu.Lock()
	changed := p.record(c, fresh, sign, err, busy, time.Now(), a.times.second)
	calm, unhealthy := p.isCalm(time.Now(), a.times.calm), c.State == fleet.HealthFails && c.fails > 0
	a.health.mu.Unlock()
	if calm {
		a.record(id, func(k *vmState) { k.Acted = 0 })
	}
	if unhealthy && !busy && c.Check.Action != fleet.HealthReport {
		changed = a.actOn(ctx, id, p, c) || changed
	}
	if changed {
		a.reports.triggerFull()
	}
}

// readGuest reads the guest's state. An Unsure error means that the guest cannot be checked now.
func (a *Agent) readGuest(ctx context.Context, id fleet.VMID) (fleet.VMStatus, error) {
	var status fleet.VMStatus
	err := a.within(ctx, func(ctx context.Context) (err error) {
		status, _, err = a.hypervisor.VM(ctx, id)
		return err
	})
	switch {
	case err != nil:
		return status, hypervisor.Unsure("The host's hypervisor does not answer.")
	case status.Power == fleet.Paused:
		return status, hypervisor.Unsure("The VM is paused.")
	case status.Power != fleet.Running:
		return status, hypervisor.Unsure("The VM is off.")
	case status.Guest != nil && status.Guest.Frozen:
		return status, hypervisor.Unsure("The guest's file systems are frozen.")
	}
	return status, nil
}

// record records the result of a check, and reports whether it must be sent to the portal. The checker's lock must be
// held.
func (p *checkedVM) record(c *checkState, fresh fleet.VMStatus, sign hypervisor.Sign, err error, busy bool, now time.Time, second time.Duration) (changed bool) {
	usual := c.Check.Usual()
	c.due = now.Add(time.Duration(usual.Interval) * second)
	if busy { // a job works on the VM, so the guest's answers do not count
		c.fails = 0
		return false
	}
	if fresh.StartedAt != nil && !fresh.StartedAt.Equal(p.run) {
		if !p.run.IsZero() {
			p.since = now
		} else if fresh.StartedAt.Before(p.since) {
			p.since = *fresh.StartedAt // the guest started before the agent
		}
		p.run = *fresh.StartedAt
		for _, o := range p.checks {
			o.mark, o.fails = "", 0
		}
	}
	was := c.mark
	c.mark = cmp.Or(sign.Mark, was)
	switch {
	case err != nil || was == "":
	case usual.Kind == fleet.HealthScreen && was == c.mark:
		err = errors.New("the screen has not changed")
	case usual.Kind == fleet.HealthWatchdog && was != c.mark:
		err = errors.New("the guest did not feed the watchdog")
	}
	var unsure hypervisor.Unsure
	next := c.HealthState
	switch {
	case errors.As(err, &unsure) || errors.Is(err, hypervisor.ErrAway):
		next.State, next.Said, c.fails = fleet.HealthUnsure, wire.Shown(err.Error(), fleet.MaxHealthWords), 0
	case err == nil:
		next.State, next.Said, c.fails = fleet.Healthy, wire.Shown(sign.Said, fleet.MaxHealthWords), 0
	case now.Sub(p.since) < time.Duration(usual.Grace)*second:
		c.fails = 0
	default:
		if c.fails++; c.fails >= usual.Threshold {
			next.State, next.Said = fleet.HealthFails, wire.Shown(err.Error(), fleet.MaxHealthWords)
		}
	}
	if changed = next.State != c.State; changed {
		at := now.UTC().Truncate(time.Second)
		next.Since = &at
		c.HealthState = next
	}
	return changed
}

// isCalm reports whether no check has failed for a while since the last action.
func (p *checkedVM) isCalm(now time.Time, calm time.Duration) bool {
	if slices.ContainsFunc(p.checks, func(c *checkState) bool { return c.State == fleet.HealthFails || c.fails > 0 }) {
		p.calm = time.Time{}
		return false
	}
	if p.calm.IsZero() {
		p.calm = now
	}
	return !p.acted.IsZero() && now.Sub(p.calm) > calm
}

// actOn acts on a guest that fails a check, unless the last action was too recent or the limit is reached. It records
// the action before it acts.
func (a *Agent) actOn(ctx context.Context, id fleet.VMID, p *checkedVM, c *checkState) bool {
	k, known := a.state.checkedVMs()[id]
	a.health.mu.Lock()
	wait := !p.acted.IsZero() && time.Since(p.acted) < restartDelay(k.Acted, a.times.again, a.times.againMax)
	run := p.run
	a.health.mu.Unlock()
	if !known || k.Again != "" || k.StopRequested || k.Acted >= fleet.MaxHealthActions || wait {
		return false
	}
	fresh, err := a.readGuest(ctx, id) // a user may have forced the VM off or paused it during the check
	if err != nil || fresh.StartedAt != nil && !fresh.StartedAt.Equal(run) || a.running.busy()[fleet.SubjectVM(id)] {
		return false
	}
	boot := a.bootID()
	if err := a.state.updateVM(id, func(k *vmState) {
		if k.Acted++; c.Check.Action == fleet.HealthRestart {
			k.Again, k.AgainAt = boot, time.Now()
		}
	}); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
		return false
	}
	a.log.Info("A guest fails a health check.", "vm", k.Name, "check", c.Check.Says(), "said", c.Said, "action", c.Check.Action, "time", k.Acted+1)
	a.health.mu.Lock()
	p.acted, p.since, p.calm = time.Now(), time.Now(), time.Time{}
	for _, o := range p.checks {
		o.fails, o.mark = 0, ""
	}
	a.health.mu.Unlock()
	if c.Check.Action == fleet.HealthRestart {
		a.restartUnhealthy(ctx, id, p)
		return true
	}
	if err := a.within(ctx, func(ctx context.Context) error { return a.hypervisor.ResetVM(ctx, id) }); err != nil {
		a.log.Warn("A guest that fails a health check could not be reset.", "vm", k.Name, "error", err)
	}
	return true
}

// restartUnhealthy forces the unhealthy guest off and starts it again. The next round, or the next agent, finishes an
// interrupted restart.
func (a *Agent) restartUnhealthy(ctx context.Context, id fleet.VMID, p *checkedVM) {
	a.health.mu.Lock()
	p.acted = time.Now()
	a.health.mu.Unlock()
	k, known := a.state.checkedVMs()[id]
	if !known || k.Again == "" || a.running.busy()[fleet.SubjectVM(id)] {
		return
	}
	var status fleet.VMStatus
	err := a.within(ctx, func(ctx context.Context) (err error) {
		status, _, err = a.hypervisor.VM(ctx, id)
		return err
	})
	over := k.Again != a.bootID() || status.Power == fleet.Paused || status.Power == fleet.Absent ||
		// another run: the VM was restarted by other means
		status.Power == fleet.Running && (status.StartedAt == nil || status.StartedAt.After(k.AgainAt))
	switch {
	case err != nil:
		return
	case over:
		a.record(id, func(k *vmState) { k.Again = "" })
		return
	case status.Power == fleet.Running:
		if err := a.within(ctx, func(ctx context.Context) error { return a.hypervisor.StopVM(ctx, id) }); err != nil {
			a.log.Warn("A guest that fails a health check could not be forced off.", "vm", k.Name, "error", err)
			return
		}
	}
	if k, known = a.state.checkedVMs()[id]; !known || k.Again == "" || a.running.busy()[fleet.SubjectVM(id)] {
		return // a user wants the VM off
	}
	err = a.startByItself(ctx, id)
	a.record(id, func(k *vmState) {
		switch {
		case err == nil:
			k.Ran, k.Down, k.Trouble, k.Again = a.bootID(), "", "", ""
		case k.Again != "":
			k.Trouble = err.Error()
		}
	})
	a.reports.triggerFull()
}

func (a *Agent) record(id fleet.VMID, change func(*vmState)) {
	if err := a.state.updateVM(id, change); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
}

// addTo adds the states of the health checks to a status.
func (j *healthChecker) addTo(id fleet.VMID, status *fleet.VMStatus, acted int) {
	if status.Health = nil; len(status.Checks) == 0 || isOff(status.Power) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range status.Checks {
		out := fleet.HealthState{Check: c, State: fleet.HealthUnsure, Said: "Not checked yet."}
		if p := j.all[id]; p != nil {
			if i := slices.IndexFunc(p.checks, func(o *checkState) bool { return o.Check == c }); i >= 0 {
				out = p.checks[i].HealthState
			}
		}
		switch {
		case status.Power == fleet.Paused:
			out.State, out.Said, out.Since = fleet.HealthUnsure, "The VM is paused.", nil
		case status.Guest != nil && status.Guest.Frozen:
			out.State, out.Said, out.Since = fleet.HealthUnsure, "The guest's file systems are frozen.", nil
		}
		out.Acted = acted
		status.Health = append(status.Health, out)
	}
	if f := fleet.HealthFault(status.Health); f != nil {
		status.Faults = append(slices.Clone(status.Faults), *f)
	}
}
