package agent

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

type vmState struct {
	Name       string        `json:"name"`
	Generation int64         `json:"generation"`
	Error      string        `json:"error,omitempty"`
	ErrorOf    fleet.JobKind `json:"errorOf,omitempty"`
	// AppliedGeneration is the last applied generation.
	AppliedGeneration int64 `json:"stamped,omitempty"`
	// CreatedDisks are disks of the VM that this agent created: the definition may be removed before the portal knows the
	// disks.
	CreatedDisks []fleet.Volref `json:"made,omitempty"`
	// OnInBoot is the ID of the host's boot at the last read that found the guest on. It is empty if the guest was
	// found off, or if a job powered the guest off.
	OnInBoot string `json:"ran,omitempty"`

	// Policy is the autostart and restart policy at the newest read of the VM. The fields below apply only to the
	// current boot of the host or the current run of the guest.
	Policy        fleet.VMPolicy `json:"policy,omitzero"`
	AutostartBoot string         `json:"booted,omitempty"`   // the host boot when the VM's autostart was decided
	StopRequested bool           `json:"asked,omitempty"`    // a user asked to power the VM off, so it stays off
	Recycled      bool           `json:"recycled,omitempty"` // in the recycle bin: no policy starts the VM
	// how the guest powered off without a request: "crashed" or "shut down"; empty if no restart is pending
	StoppedBy  string `json:"down,omitempty"`
	Restarts   int    `json:"restarts,omitempty"` // restarts by policy since the guest last ran for a while
	StartError string `json:"trouble,omitempty"`  // error of the newest start by policy

	Checks []fleet.HealthCheck `json:"checks,omitempty"` // the newest health checks seen
	// number of the host's actions after failed health checks since the guest was last healthy for a while
	HealthActions int `json:"acted,omitempty"`
	// the ID of the host's boot when a restart after a failed health check began; empty if no restart is pending
	RestartBoot string `json:"again,omitempty"`
	// when the pending restart began; a run of the guest that started earlier is forced off
	RestartAt time.Time `json:"againAt,omitzero"`
}

// recordRunningObjects records the guests and networks that a read of the host found on in this boot. begun is when the read
// began. It writes the file only after a change.
func (m *stateFile) recordRunningObjects(s wire.State, boot string, begun time.Time) error {
	if boot == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, vm := range s.VMs {
		if m.hasJobEntrySince(vm.ID, begun) {
			continue
		}
		k := m.data.VMs[vm.ID]
		next := k.withReadStatus(vm.Status, boot)
		if reflect.DeepEqual(next, k) {
			continue
		}
		if changed = true; next.Name == "" {
			next.Name, next.Generation = vm.Name, vm.Generation // from the definition's metadata
		}
		m.data.VMs[vm.ID] = next
	}
	for _, n := range s.Networks {
		k, ordered := m.data.Networks[n.ID]
		now := networkState{ActiveInBoot: boot, Error: k.Error}
		if n.Status.Error == "" {
			now.Error = ""
		}
		if ordered && n.Status.Active && k != now && !m.hasJobEntrySince(n.ID, begun) {
			m.data.Networks[n.ID], changed = now, true
		}
	}
	if !changed {
		return nil
	}
	return m.save()
}

func isOff(p fleet.Power) bool {
	return p == fleet.Stopped || p == fleet.Crashed || p == fleet.Absent
}

// addToStatus adds the agent's data to the status of one VM; boot is the host's current boot.
func (m *stateFile) addToStatus(id fleet.VMID, status *fleet.VMStatus, boot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data.VMs[id].addToStatus(status, boot)
}

func (k vmState) addToStatus(status *fleet.VMStatus, boot string) {
	status.Error, status.ErrorOf = k.Error, k.ErrorOf
	if k.OnInBoot != "" && boot != "" && k.OnInBoot != boot && isOff(status.Power) && status.Power != fleet.Absent {
		status.Faults = append(slices.Clone(status.Faults), fleet.Fault{
			Code: fleet.FaultRebooted, Text: "The VM was on when its host went down, and is off since the host came back. Start the VM, or force it off to keep it off.",
		})
	}
	k.addPolicyState(status, boot)
}

// withReadStatus returns the entry, updated from a read of the VM's status.
func (k vmState) withReadStatus(s fleet.VMStatus, boot string) vmState {
	// a policy change after boot takes effect at the next boot
	if k.AutostartBoot != boot && k.Policy.Autostart == "" {
		k.AutostartBoot = boot
	}
	k.Policy = s.Policy
	if k.Checks = s.Checks; len(k.Checks) == 0 {
		k.Checks, k.HealthActions, k.RestartBoot = nil, 0, ""
	}
	switch {
	case !isOff(s.Power):
		if k.OnInBoot != boot {
			k.StopRequested = false
		}
		k.OnInBoot, k.AutostartBoot, k.StoppedBy, k.StartError = boot, boot, "", ""
	case k.OnInBoot == boot:
		k.OnInBoot = ""
		if !k.StopRequested {
			k.StoppedBy = restartReason(k.Policy, s)
		}
	}
	if k.Policy.Restart == "" {
		k.StoppedBy, k.Restarts = "", 0
	}
	return k
}

// unrequestedStopReason returns how a guest powered off without a request; empty: a user powered it off.
func unrequestedStopReason(s fleet.VMStatus) string {
	switch {
	case s.Power == fleet.Crashed:
		return "crashed"
	case s.Power == fleet.Stopped && s.Reason == "shut down":
		return "shut down"
	}
	return ""
}

// restartReason returns how the guest powered off if its policy restarts it after that; else empty.
func restartReason(p fleet.VMPolicy, s fleet.VMStatus) string {
	switch down := unrequestedStopReason(s); {
	case p.Restart == "always", p.Restart == "onFailure" && down == "crashed":
		return down
	}
	return ""
}

// recordSuccess updates the entry after a successful job; turned: the job has powered the guest on or off.
func (k *vmState) recordSuccess(kind fleet.JobKind, powerChanged bool, boot string) {
	if powerChanged {
		k.OnInBoot, k.StoppedBy, k.StartError, k.Restarts = "", "", "", 0
		k.HealthActions, k.RestartBoot = 0, ""
	}
	if powerChanged && kind.Info().Power == fleet.Running {
		// the entry is updated now, because the guest may power off again before the next read of the host
		k.OnInBoot, k.AutostartBoot = boot, cmp.Or(boot, k.AutostartBoot)
	}
	if power := kind.Info().Power; power == fleet.Running || kind == fleet.VMReboot || kind == fleet.VMReset {
		k.StopRequested = false
	}
}

// addPolicyState adds the state of autostart and restarts by policy.
func (k vmState) addPolicyState(status *fleet.VMStatus, boot string) {
	status.Restarts = k.Restarts
	off := status.Power == fleet.Stopped || status.Power == fleet.Crashed
	say := func(text string) {
		status.Faults = append(slices.Clone(status.Faults), fleet.Fault{Code: fleet.FaultRestart, Text: text})
	}
	switch {
	case !off:
	case k.RestartBoot != "" && k.StartError == "":
		say("The VM failed a health check. Its host starts it again; force the VM off to keep it off.")
	case k.StartError != "":
		say("The host could not start the VM by its policy, and retries for a while: " + k.StartError)
	case k.StoppedBy == "crashed":
		say("The VM crashed. Its host starts it again within minutes; force the VM off to keep it off.")
	case k.StoppedBy != "":
		say("The VM was shut down from within. Its host starts it again within minutes; force the VM off to keep it off.")
	}
}

// recordStopRequest records, before the VM is powered off, that a user wants it off. The VM then no longer autostarts
// in this boot of the host.
func (m *stateFile) recordStopRequest(id fleet.VMID, boot string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, known := m.data.VMs[id]
	next := k
	next.RestartBoot = ""
	if next.StopRequested, next.AutostartBoot, next.StoppedBy, next.StartError = true, boot, "", ""; !known || reflect.DeepEqual(k, next) {
		return nil
	}
	m.data.VMs[id], m.jobEntryAt[id] = next, time.Now()
	return m.save()
}

// updateVM changes the entry of a known VM.
func (m *stateFile) updateVM(id fleet.VMID, change func(*vmState)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.data.VMs[id]
	next := old
	if change(&next); !known || reflect.DeepEqual(next, old) {
		return nil
	}
	m.data.VMs[id], m.jobEntryAt[id] = next, time.Now()
	return m.save()
}

// vmsWithPolicyOrChecks returns the VMs with a start or restart policy or with health checks, but not those in the
// recycle bin.
func (m *stateFile) vmsWithPolicyOrChecks() map[fleet.VMID]vmState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[fleet.VMID]vmState{}
	for id, k := range m.data.VMs {
		if !k.Recycled && (k.Policy != (fleet.VMPolicy{}) || len(k.Checks) > 0) {
			out[id] = k
		}
	}
	return out
}

// vmsWithHealthChecks returns the VMs with health checks.
func (m *stateFile) vmsWithHealthChecks() map[fleet.VMID]vmState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[fleet.VMID]vmState{}
	for id, k := range m.data.VMs {
		if len(k.Checks) > 0 {
			out[id] = k
		}
	}
	return out
}

// healthActions returns the number of actions after failed health checks of a VM.
func (m *stateFile) healthActions(id fleet.VMID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.VMs[id].HealthActions
}

// setFrozen records whether a guest is frozen.
func (m *stateFile) setFrozen(id fleet.VMID, frozen bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.data.Frozen, id) == frozen {
		return nil
	}
	m.data.Frozen = slices.DeleteFunc(slices.Clone(m.data.Frozen), func(o fleet.VMID) bool { return o == id })
	if frozen {
		m.data.Frozen = append(m.data.Frozen, id)
	}
	return m.save()
}

// frozenVMs lists the frozen guests.
func (m *stateFile) frozenVMs() []fleet.VMID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.data.Frozen)
}
