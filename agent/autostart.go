package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// autostarter applies the VMs' start and restart policies, also while the portal is offline. It starts VMs when the
// host boots, and restarts guests that power off without a request.
type autostarter struct {
	mu     sync.Mutex
	readAt time.Time // when the reporter last read the host

	// restart times of stopped guests; only the loop uses this field and the following ones
	due    map[fleet.VMID]time.Time
	on     map[fleet.VMID]time.Time // when restarted guests were first seen on
	boot   []fleet.VMID             // VMs still to autostart after the host's boot, in start order
	tries  map[fleet.VMID]int
	begun  bool
	notYet time.Time // earliest time of the next start
}

// maxBootTries limits the attempts to start a VM with its host: its storage may be ready later than the agent.
const maxBootTries = 20

// noteFreshState records that the state file has been updated from a read of the host.
func (a *Agent) noteFreshState() {
	a.autostart.mu.Lock()
	defer a.autostart.mu.Unlock()
	a.autostart.readAt = time.Now()
}

// autostartLoop runs the autostart loop until ctx ends.
func (a *Agent) autostartLoop(ctx context.Context) {
	if _, err := a.inventory.wait(ctx); err != nil {
		return
	}
	k := &a.autostart
	k.due, k.on, k.tries = map[fleet.VMID]time.Time{}, map[fleet.VMID]time.Time{}, map[fleet.VMID]int{}
	for ctx.Err() == nil {
		if all := a.state.policyVMs(); len(all) > 0 && a.refreshPolicyVMs(ctx, all) {
			a.startWithHost(ctx, a.state.policyVMs())
			a.startAgain(ctx, a.state.policyVMs())
		}
		pause(ctx, a.times.keep)
	}
}

// refreshPolicyVMs reads the VMs in all into the state file unless a report has done so lately: while the portal is
// offline, no report does. It returns false if the VMs' state is unknown.
func (a *Agent) refreshPolicyVMs(ctx context.Context, all map[fleet.VMID]vmState) bool {
	a.autostart.mu.Lock()
	fresh := time.Since(a.autostart.readAt) < 2*a.times.report
	a.autostart.mu.Unlock()
	if fresh {
		return true
	}
	var state wire.State
	begun := time.Now()
	for id := range all {
		err := a.within(ctx, func(ctx context.Context) error {
			status, generation, err := a.hypervisor.VM(ctx, id)
			if status.Power != fleet.Absent {
				state.VMs = append(state.VMs, wire.VMReport{ID: id, Name: all[id].Name, Generation: generation, Status: status})
			}
			return err
		})
		if err != nil {
			return false
		}
	}
	if err := a.state.seen(state, a.bootID(), begun); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
		return false
	}
	a.noteFreshState()
	return true
}

// startWithHost starts the next VM that autostarts after the host's boot, once the previous VM's start delay is over.
func (a *Agent) startWithHost(ctx context.Context, all map[fleet.VMID]vmState) {
	k, boot := &a.autostart, a.bootID()
	if !k.begun {
		k.begun = true
		k.boot = bootOrder(all, boot)
	}
	if len(k.boot) == 0 || time.Now().Before(k.notYet) {
		return
	}
	id := k.boot[0]
	vm, there := all[id]
	if a.running.busy()[fleet.SubjectVM(id)] {
		return
	}
	if !there || vm.Booted == boot { // the VM was started already, or a user powered it off
		k.boot = k.boot[1:]
		return
	}
	err := a.startByItself(ctx, id)
	k.tries[id]++
	switch {
	case err == nil:
		a.log.Info("A VM was started after the boot of its host.", "vm", vm.Name)
		k.notYet = time.Now().Add(time.Duration(vm.Policy.StartDelay) * time.Second)
	case k.tries[id] < maxBootTries:
		k.boot = append(k.boot[1:], id) // retried later: the other VMs do not wait
		k.notYet = time.Now().Add(a.times.again / time.Duration(min(len(k.boot), 10)))
		a.noteTrouble(id, err)
		return
	default:
		a.noteTrouble(id, err)
	}
	k.boot = k.boot[1:]
	if err := a.state.updateVM(id, func(k *vmState) {
		if k.Booted = boot; err == nil {
			k.Ran, k.Trouble = boot, ""
		}
	}); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
}

// bootOrder returns the VMs to autostart after the host's boot, in start order. A VM autostarts once per boot.
func bootOrder(all map[fleet.VMID]vmState, boot string) []fleet.VMID {
	var out []fleet.VMID
	for id, vm := range all {
		wasOn := vm.Ran != "" && vm.Ran != boot
		if vm.Booted != boot && (vm.Policy.Autostart == "on" || vm.Policy.Autostart == "last" && wasOn) {
			out = append(out, id)
		}
	}
	place := func(id fleet.VMID) int { return all[id].Policy.StartPlace() }
	slices.SortFunc(out, func(x, y fleet.VMID) int {
		return cmp.Or(cmp.Compare(place(x), place(y)), cmp.Compare(all[x].Name, all[y].Name), cmp.Compare(x, y))
	})
	return out
}

// startAgain restarts guests that powered off without a request, with a growing delay.
func (a *Agent) startAgain(ctx context.Context, all map[fleet.VMID]vmState) {
	k, now := &a.autostart, time.Now()
	maps.DeleteFunc(k.due, func(id fleet.VMID, _ time.Time) bool { return all[id].Down == "" })
	for _, id := range slices.Sorted(maps.Keys(all)) {
		vm := all[id]
		due, waits := k.due[id]
		switch {
		case vm.Down == "":
			a.resetRestarts(id, vm, now)
		case !waits:
			k.due[id] = now.Add(restartDelay(vm.Restarts, a.times.again, a.times.againMax))
			delete(k.on, id)
		case now.Before(due) || a.running.busy()[fleet.SubjectVM(id)]:
		default:
			delete(k.due, id)
			err := a.startByItself(ctx, id)
			a.log.Info("A VM that powered off without a request is restarted.", "vm", vm.Name, "after", vm.Down, "time", vm.Restarts+1, "error", err)
			keep := func(k *vmState) {
				k.Restarts++
				if err == nil {
					k.Ran, k.Down, k.Trouble = a.bootID(), "", ""
				} else if k.Down != "" {
					k.Trouble = err.Error()
				}
			}
			if err := a.state.updateVM(id, keep); err != nil {
				a.log.Error("The agent's state file cannot be written.", "error", err)
			}
			a.reports.triggerFull()
		}
	}
}

// resetRestarts resets the restart count of a guest once it has run for a while.
func (a *Agent) resetRestarts(id fleet.VMID, vm vmState, now time.Time) {
	k := &a.autostart
	if vm.Restarts == 0 || vm.Ran == "" {
		delete(k.on, id)
		return
	}
	since, known := k.on[id]
	switch {
	case !known:
		k.on[id] = now
	case now.Sub(since) > a.times.calm:
		delete(k.on, id)
		if err := a.state.updateVM(id, func(k *vmState) { k.Restarts = 0 }); err != nil {
			a.log.Error("The agent's state file cannot be written.", "error", err)
		}
	}
}

// restartDelay returns the delay before the next start of a guest that was restarted n times.
func restartDelay(n int, first, most time.Duration) time.Duration {
	return min(first<<min(n, 16), most)
}

// startByItself starts a VM with its current definition, without a job.
func (a *Agent) startByItself(ctx context.Context, id fleet.VMID) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.times.start, errOverdue)
	defer cancel()
	return explain(ctx, a.hypervisor.StartVM(ctx, id))
}

// noteTrouble records the error of a failed autostart for the next report.
func (a *Agent) noteTrouble(id fleet.VMID, err error) {
	a.log.Warn("A VM could not be started after the boot of its host.", "vm", id, "error", err)
	if err := a.state.updateVM(id, func(k *vmState) { k.Trouble = err.Error() }); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
	a.reports.triggerFull()
}
