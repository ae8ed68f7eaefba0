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

	// restart times of stopped guests; only autostartLoop uses restartAt and the fields below
	restartAt    map[fleet.VMID]time.Time
	runningSince map[fleet.VMID]time.Time // when guests restarted by policy were first seen on
	bootQueue    []fleet.VMID             // VMs still to autostart after the host's boot, in start order
	bootTries    map[fleet.VMID]int
	bootQueued   bool
	nextStart    time.Time // earliest time of the next start
}

// maxBootTries limits the attempts to start a VM with its host: its storage may be ready later than the agent.
const maxBootTries = 20

// recordHostReadTime records that the state file has been updated from a new read of the host.
func (a *Agent) recordHostReadTime() {
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
	k.restartAt, k.runningSince, k.bootTries = map[fleet.VMID]time.Time{}, map[fleet.VMID]time.Time{}, map[fleet.VMID]int{}
	for ctx.Err() == nil {
		if all := a.state.vmsWithPolicyOrChecks(); len(all) > 0 && a.refreshVMStates(ctx, all) {
			a.autostartNextVM(ctx, a.state.vmsWithPolicyOrChecks())
			a.restartStoppedVMs(ctx, a.state.vmsWithPolicyOrChecks())
		}
		sleepContext(ctx, a.timing.policyInterval)
	}
}

// refreshVMStates reads the VMs in all and updates the state file, unless a report has done so recently. While the
// portal is offline, there are no reports. It returns false if the VMs' state is unknown.
func (a *Agent) refreshVMStates(ctx context.Context, all map[fleet.VMID]vmState) bool {
	a.autostart.mu.Lock()
	fresh := time.Since(a.autostart.readAt) < 2*a.timing.reportInterval
	a.autostart.mu.Unlock()
	if fresh {
		return true
	}
	var state wire.State
	begun := time.Now()
	for id := range all {
		err := a.withCallTimeout(ctx, func(ctx context.Context) error {
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
	if err := a.state.recordRunningObjects(state, a.bootID(), begun); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
		return false
	}
	a.recordHostReadTime()
	return true
}

// autostartNextVM starts the next VM that autostarts after the host's boot, once the previous VM's start delay is over.
// While the host is in maintenance, the VMs wait.
func (a *Agent) autostartNextVM(ctx context.Context, all map[fleet.VMID]vmState) {
	k, boot := &a.autostart, a.bootID()
	if !k.bootQueued {
		k.bootQueued = true
		k.bootQueue = autostartOrder(all, boot)
	}
	if len(k.bootQueue) == 0 || time.Now().Before(k.nextStart) || a.state.inMaintenance() {
		return
	}
	id := k.bootQueue[0]
	vm, there := all[id]
	if a.running.subjects()[fleet.SubjectVM(id)] {
		return
	}
	if !there || vm.AutostartBoot == boot { // the VM was started already, or a user powered it off
		k.bootQueue = k.bootQueue[1:]
		return
	}
	err := a.startVMByPolicy(ctx, id)
	k.bootTries[id]++
	switch {
	case err == nil:
		a.log.Info("A VM was started after the boot of its host.", "vm", vm.Name)
		k.nextStart = time.Now().Add(time.Duration(vm.Policy.StartDelay) * time.Second)
	case k.bootTries[id] < maxBootTries:
		k.bootQueue = append(k.bootQueue[1:], id) // retried after the other VMs, which do not wait for this one
		k.nextStart = time.Now().Add(a.timing.restartDelayMin / time.Duration(min(len(k.bootQueue), 10)))
		a.recordStartError(id, err)
		return
	default:
		a.recordStartError(id, err)
	}
	k.bootQueue = k.bootQueue[1:]
	if err := a.state.updateVM(id, func(k *vmState) {
		if k.AutostartBoot = boot; err == nil {
			k.OnInBoot, k.StartError = boot, ""
		}
	}); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
}

// autostartOrder returns the VMs to autostart after the host's boot, in start order. A VM autostarts once per boot.
func autostartOrder(all map[fleet.VMID]vmState, boot string) []fleet.VMID {
	var out []fleet.VMID
	for id, vm := range all {
		wasOn := vm.OnInBoot != "" && vm.OnInBoot != boot
		if vm.AutostartBoot != boot && (vm.Policy.Autostart == "on" || vm.Policy.Autostart == "last" && wasOn) {
			out = append(out, id)
		}
	}
	place := func(id fleet.VMID) int { return all[id].Policy.StartPosition() }
	slices.SortFunc(out, func(x, y fleet.VMID) int {
		return cmp.Or(cmp.Compare(place(x), place(y)), cmp.Compare(all[x].Name, all[y].Name), cmp.Compare(x, y))
	})
	return out
}

// restartStoppedVMs restarts guests that powered off without a request, with a growing delay.
func (a *Agent) restartStoppedVMs(ctx context.Context, all map[fleet.VMID]vmState) {
	k, now := &a.autostart, time.Now()
	maps.DeleteFunc(k.restartAt, func(id fleet.VMID, _ time.Time) bool { return all[id].StoppedBy == "" })
	for _, id := range slices.Sorted(maps.Keys(all)) {
		vm := all[id]
		due, waits := k.restartAt[id]
		switch {
		case vm.StoppedBy == "":
			a.resetRestartCount(id, vm, now)
		case !waits:
			k.restartAt[id] = now.Add(restartDelay(vm.Restarts, a.timing.restartDelayMin, a.timing.restartDelayMax))
			delete(k.runningSince, id)
		case now.Before(due) || a.running.subjects()[fleet.SubjectVM(id)]:
		default:
			delete(k.restartAt, id)
			err := a.startVMByPolicy(ctx, id)
			a.log.Info("A VM that powered off without a request is restarted.", "vm", vm.Name, "after", vm.StoppedBy, "time", vm.Restarts+1, "error", err)
			keep := func(k *vmState) {
				k.Restarts++
				if err == nil {
					k.OnInBoot, k.StoppedBy, k.StartError = a.bootID(), "", ""
				} else if k.StoppedBy != "" {
					k.StartError = err.Error()
				}
			}
			if err := a.state.updateVM(id, keep); err != nil {
				a.log.Error("The agent's state file cannot be written.", "error", err)
			}
			a.reports.triggerFull()
		}
	}
}

// resetRestartCount resets the restart count of a guest once it has run for a while.
func (a *Agent) resetRestartCount(id fleet.VMID, vm vmState, now time.Time) {
	k := &a.autostart
	if vm.Restarts == 0 || vm.OnInBoot == "" {
		delete(k.runningSince, id)
		return
	}
	since, known := k.runningSince[id]
	switch {
	case !known:
		k.runningSince[id] = now
	case now.Sub(since) > a.timing.restartResetPeriod:
		delete(k.runningSince, id)
		if err := a.state.updateVM(id, func(k *vmState) { k.Restarts = 0 }); err != nil {
			a.log.Error("The agent's state file cannot be written.", "error", err)
		}
	}
}

// restartDelay returns the delay before the next start of a guest that was restarted n times.
func restartDelay(n int, first, most time.Duration) time.Duration {
	return min(first<<min(n, 16), most)
}

// startVMByPolicy starts a VM with its current definition, without a job.
func (a *Agent) startVMByPolicy(ctx context.Context, id fleet.VMID) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timing.startLimit, errCallTimedOut)
	defer cancel()
	return addContextCause(ctx, a.hypervisor.StartVM(ctx, id))
}

// recordStartError records the error of a failed autostart for the next report.
func (a *Agent) recordStartError(id fleet.VMID, err error) {
	a.log.Warn("A VM could not be started after the boot of its host.", "vm", id, "error", err)
	if err := a.state.updateVM(id, func(k *vmState) { k.StartError = err.Error() }); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
	a.reports.triggerFull()
}
