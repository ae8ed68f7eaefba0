package fleet

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// HostLifecycle is the state of a host in operation. It is derived from the host's maintenance and from the age of its
// reports, never stored.
type HostLifecycle string

const (
	LifecyclePending     HostLifecycle = "pending"     // never reported
	LifecycleReady       HostLifecycle = "ready"       // online
	LifecycleNotReady    HostLifecycle = "notReady"    // offline, or online with a fault
	LifecycleDraining    HostLifecycle = "draining"    // entering maintenance: VMs still have to leave or to stop
	LifecycleMaintenance HostLifecycle = "maintenance" // no VM runs but those that a user left running
	LifecycleOffline     HostLifecycle = "offline"     // in maintenance and offline, as expected: powered off
)

// LifecycleTrigger is what changes a host's lifecycle.
type LifecycleTrigger string

const (
	TriggerReport  LifecycleTrigger = "report"  // a report of the host's agent
	TriggerSilence LifecycleTrigger = "silence" // the last report is no longer valid
	TriggerUser    LifecycleTrigger = "user"    // a user's request
	TriggerTask    LifecycleTrigger = "task"    // the last VM has left or stopped
)

// LifecycleChange is one row of LifecycleChanges.
type LifecycleChange struct {
	From, To HostLifecycle
	By       LifecycleTrigger
}

// LifecycleChanges lists every change of a host's lifecycle, and what may trigger it.
var LifecycleChanges = []LifecycleChange{
	{LifecyclePending, LifecycleReady, TriggerReport},
	{LifecyclePending, LifecycleNotReady, TriggerReport}, // the hypervisor does not answer
	{LifecycleReady, LifecycleNotReady, TriggerSilence},
	{LifecycleReady, LifecycleNotReady, TriggerReport}, // the hypervisor does not answer
	{LifecycleNotReady, LifecycleReady, TriggerReport},
	{LifecycleReady, LifecycleDraining, TriggerUser},
	{LifecycleReady, LifecycleMaintenance, TriggerUser}, // no VM has to leave or to stop
	{LifecycleDraining, LifecycleMaintenance, TriggerTask},
	{LifecycleDraining, LifecycleReady, TriggerUser},
	{LifecycleDraining, LifecycleNotReady, TriggerUser},
	{LifecycleMaintenance, LifecycleReady, TriggerUser},
	{LifecycleMaintenance, LifecycleNotReady, TriggerUser},
	{LifecycleMaintenance, LifecycleOffline, TriggerSilence},
	{LifecycleOffline, LifecycleMaintenance, TriggerReport},
}

// HostOperation is an operation that a host's lifecycle allows or refuses.
type HostOperation string

const (
	HostPlaceVM          HostOperation = "place a VM"
	HostStartVM          HostOperation = "start a VM"
	HostEnterMaintenance HostOperation = "enter maintenance"
	HostLeaveMaintenance HostOperation = "leave maintenance"
	HostPowerCommand     HostOperation = "reboot or shut down the host"
	HostRemove           HostOperation = "remove the host"
)

// HostOperations lists every operation.
var HostOperations = []HostOperation{HostPlaceVM, HostStartVM, HostEnterMaintenance, HostLeaveMaintenance, HostPowerCommand, HostRemove}

// lifecycleInfo describes one lifecycle. A missing refusal means that the operation is allowed; %s is the host's name.
type lifecycleInfo struct {
	word     string
	severity Severity
	refusals map[HostOperation]string
}

const (
	notInMaintenance   = "%s is not in maintenance."
	onlyInMaintenance  = "%s is not in maintenance. Enter maintenance first."
	offlineInTransit   = "%s is offline or has a fault, so the state of its VMs is unknown. Fix the host first."
	poweredOffFirst    = "%s is powered off. Power it on first."
	neverReported      = "%s has not reported yet."
	drainingRefusal    = "%s is entering maintenance."
	maintenanceRefusal = "%s is in maintenance."
)

var lifecycles = map[HostLifecycle]lifecycleInfo{
	LifecyclePending: {"Waiting for agent", SeverityWarn, map[HostOperation]string{
		HostPlaceVM: neverReported, HostEnterMaintenance: neverReported, HostLeaveMaintenance: notInMaintenance, HostPowerCommand: onlyInMaintenance,
	}},
	LifecycleReady: {"Ready", SeverityOK, map[HostOperation]string{
		HostLeaveMaintenance: notInMaintenance, HostPowerCommand: onlyInMaintenance,
	}},
	LifecycleNotReady: {"Not ready", SeverityUnknown, map[HostOperation]string{
		HostPlaceVM: "%s is offline or has a fault.", HostEnterMaintenance: offlineInTransit, HostLeaveMaintenance: notInMaintenance, HostPowerCommand: onlyInMaintenance,
	}},
	LifecycleDraining: {"Entering maintenance", SeverityWarn, map[HostOperation]string{
		HostPlaceVM: drainingRefusal, HostStartVM: drainingRefusal + " Leave maintenance or migrate the VM first.",
		HostPowerCommand: drainingRefusal + " Wait for its task, or resume the maintenance if the task has ended.", HostRemove: drainingRefusal + " Leave maintenance first.",
	}},
	LifecycleMaintenance: {"Maintenance", SeverityIdle, map[HostOperation]string{
		HostPlaceVM: maintenanceRefusal, HostStartVM: maintenanceRefusal + " Leave maintenance or migrate the VM first.",
		HostEnterMaintenance: "%s is in maintenance already.",
	}},
	LifecycleOffline: {"Powered off", SeverityIdle, map[HostOperation]string{
		HostPlaceVM: maintenanceRefusal, HostStartVM: poweredOffFirst, HostEnterMaintenance: "%s is in maintenance already.",
		HostLeaveMaintenance: poweredOffFirst, HostPowerCommand: "%s is powered off already.",
	}},
}

// HostLifecycles lists every lifecycle, in the order of filters.
var HostLifecycles = []HostLifecycle{LifecyclePending, LifecycleReady, LifecycleNotReady, LifecycleDraining, LifecycleMaintenance, LifecycleOffline}

// DisplayName returns the lifecycle as pages show it.
func (l HostLifecycle) DisplayName() string { return lifecycles[l].word }

// Severity returns the lifecycle's severity on pages.
func (l HostLifecycle) Severity() Severity { return lifecycles[l].severity }

// InMaintenance reports whether a user has requested maintenance of the host and has not ended it.
func (l HostLifecycle) InMaintenance() bool {
	return l == LifecycleDraining || l == LifecycleMaintenance || l == LifecycleOffline
}

// Refusal returns why the lifecycle of the named host refuses the operation; empty: it allows the operation.
func (l HostLifecycle) Refusal(op HostOperation, host string) string {
	if text := lifecycles[l].refusals[op]; text != "" {
		return fmt.Sprintf(text, host)
	}
	return ""
}

// Lifecycle derives the host's lifecycle at now.
func (h Host) Lifecycle(now time.Time) HostLifecycle {
	return LifecycleOf(h.Phase(now), h.Maintenance)
}

// MaintenanceState is the part of a host's lifecycle that its maintenance decides, as queries of VMs read it. The SQL
// function maintenance_state implements the same rule.
type MaintenanceState string

const (
	MaintenanceNone       MaintenanceState = ""            // not requested
	MaintenanceDraining   MaintenanceState = "draining"    // LifecycleDraining
	MaintenanceEntered    MaintenanceState = "maintenance" // LifecycleMaintenance
	MaintenanceOffline    MaintenanceState = "offline"     // LifecycleOffline
	MaintenancePoweredOff MaintenanceState = "poweredOff"  // LifecycleOffline, by Quantix's command
)

// maintenanceLifecycles maps the states to lifecycles. Without maintenance the lifecycle depends on the host's reports;
// LifecycleReady stands for it because it refuses no operation on a VM.
var maintenanceLifecycles = map[MaintenanceState]HostLifecycle{
	MaintenanceNone: LifecycleReady, MaintenanceDraining: LifecycleDraining, MaintenanceEntered: LifecycleMaintenance,
	MaintenanceOffline: LifecycleOffline, MaintenancePoweredOff: LifecycleOffline,
}

// StartRefusal returns why a VM on the named host cannot be started; empty: the maintenance allows it. An empty host
// name stands for users who do not see hosts.
func (s MaintenanceState) StartRefusal(host string) string {
	why := maintenanceLifecycles[s].Refusal(HostStartVM, cmp.Or(host, "The VM's host"))
	if why != "" && host == "" {
		why, _, _ = strings.Cut(why, ". ")
		why += ". Ask an administrator."
	}
	return why
}

// LifecycleOf derives the lifecycle of a host in the phase; m is nil without a requested maintenance. The SQL of the
// filter lifecycle implements the same rule.
func LifecycleOf(phase HostPhase, m *HostMaintenance) HostLifecycle {
	switch {
	case m == nil && phase == HostPending:
		return LifecyclePending
	case m == nil && phase == HostOnline:
		return LifecycleReady
	case m == nil:
		return LifecycleNotReady
	case m.EnteredAt == nil:
		return LifecycleDraining
	case phase == HostUnknown:
		return LifecycleOffline
	}
	return LifecycleMaintenance
}
