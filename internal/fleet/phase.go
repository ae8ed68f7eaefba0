package fleet

import "time"

// Phase is the state of a VM as pages show it. It is derived, never stored.
type Phase string

const (
	PhaseCreating     Phase = "creating"
	PhaseStarting     Phase = "starting"
	PhaseRunning      Phase = "running"
	PhaseNeedsRestart Phase = "needsRestart"
	PhaseStopping     Phase = "stopping"
	PhaseStopped      Phase = "stopped"
	PhasePausing      Phase = "pausing"
	PhasePaused       Phase = "paused"
	PhaseUpdating     Phase = "updating"
	PhaseDeleting     Phase = "deleting"
	PhaseFailed       Phase = "failed"  // creation failed
	PhaseCrashed      Phase = "crashed" // the guest or its QEMU died
	PhaseMissing      Phase = "missing" // created, but the host no longer has it
	PhaseLost         Phase = "lost"    // the VM runs, but libvirt reports it as off
	PhaseUnknown      Phase = "unknown" // the host is offline
)

// VMPhases lists every phase of a VM, for filters and completion.
var VMPhases = []Phase{
	PhaseCreating, PhaseStarting, PhaseRunning, PhaseNeedsRestart, PhaseStopping, PhaseStopped, PhasePausing,
	PhasePaused, PhaseUpdating, PhaseDeleting, PhaseFailed, PhaseCrashed, PhaseMissing, PhaseLost, PhaseUnknown,
}

// Phase derives the VM's phase at now; seen is the time of its host's report. A requested power state determines the
// phase until its task has ended, whatever the host reports meanwhile. The SQL function vm_phase implements the same
// rule for filters; a test compares the two.
func (vm VM) Phase(seen *ReportTime, now time.Time) Phase {
	switch {
	case vm.DeletedAt != nil:
		return PhaseDeleting
	case vm.Status == nil || vm.ObservedGeneration == 0:
		return PhaseCreating
	case !IsReportFresh(seen, now) && !vm.IsKnownOff(seen):
		return PhaseUnknown
	}
	return vm.lastPhase()
}

// IsKnownOff reports whether the VM is off although its host is offline: the VM was off in the last report before the
// host was powered off by Quantix's command.
func (vm VM) IsKnownOff(seen *ReportTime) bool {
	return seen != nil && seen.PoweredOff && vm.Status != nil && vm.lastPhase() == PhaseStopped
}

// lastPhase returns the phase by the host's last report on the VM.
func (vm VM) lastPhase() Phase {
	pending := vm.Generation > vm.ObservedGeneration
	switch {
	case vm.Status.Power == Absent && (pending || vm.RequestedPower != ""):
		return PhaseCreating
	case vm.Status.Power == Absent && vm.Status.Error != "":
		return PhaseFailed
	case vm.Status.Power == Absent:
		return PhaseMissing
	case vm.RequestedPower != "":
		return transitionPhase(vm.RequestedPower)
	case pending:
		return PhaseUpdating
	}
	return reportedPhase(*vm.Status)
}

// NeedsAttention reports whether the VM needs attention: its host is offline, it has faults or open drift, two hosts run
// it, or it expires. Without a pending change it also needs attention if it is missing, has crashed, or its last task
// failed and the requested state was not reached otherwise. A later successful task clears only the failure. Column
// vms.attention implements the same rule for online hosts; a test compares the two.
func (vm VM) NeedsAttention(seen *ReportTime, now time.Time) bool {
	switch {
	case vm.DeletedAt != nil || vm.Status == nil || vm.ObservedGeneration == 0:
		return false
	case !IsReportFresh(seen, now) && !vm.IsKnownOff(seen):
		return true
	case len(vm.Status.Faults) > 0 || HasOpenDrift(vm.Status.Drift) || vm.RunsOnTwoHosts() || vm.Protection.Expiry != "" || vm.ScheduleTrouble != "" || len(vm.Misplaced) > 0:
		return true
	}
	return vm.hasNoPendingChange() && (vm.Status.Power == Absent || vm.Status.Power == Crashed) || vm.LastTaskFailed()
}

// hasNoPendingChange reports whether the VM has no pending change: its host has applied the newest spec and no power
// state is requested.
func (vm VM) hasNoPendingChange() bool {
	return vm.Generation <= vm.ObservedGeneration && vm.RequestedPower == ""
}

// LastTaskFailed reports whether the VM's last task failed. It is false once the requested state was reached in another
// way, or while a newer task is pending.
func (vm VM) LastTaskFailed() bool {
	return vm.Status != nil && vm.hasNoPendingChange() && vm.Status.Error != "" && !vm.reachedRequestedPower()
}

// reachedRequestedPower reports whether the VM reached the failed task's power state later: the guest shut down late,
// or it was started on the host outside Quantix.
func (vm VM) reachedRequestedPower() bool {
	return vm.Status.ErrorOf.Info().Power != "" && vm.Status.Power == vm.Spec.Power
}

func transitionPhase(want Power) Phase {
	switch want {
	case Running:
		return PhaseStarting
	case Paused:
		return PhasePausing
	}
	return PhaseStopping
}

func reportedPhase(s VMStatus) Phase {
	if s.faultByCode(FaultLost) != nil {
		return PhaseLost
	}
	switch s.Power {
	case Running:
		if len(s.NextBoot) > 0 {
			return PhaseNeedsRestart
		}
		return PhaseRunning
	case Paused:
		return PhasePaused
	case Crashed:
		return PhaseCrashed
	}
	return PhaseStopped
}

// Severity is the severity of a state. Pages choose colour and icon by it.
type Severity string

const (
	SeverityOK      Severity = "ok"
	SeverityWarn    Severity = "warn"
	SeverityBad     Severity = "bad"
	SeverityUnknown Severity = "unknown"
	SeverityIdle    Severity = "idle"
)

var phaseDisplay = map[Phase]struct {
	word     string
	severity Severity
}{
	PhaseCreating:     {"Creating", SeverityWarn},
	PhaseStarting:     {"Starting", SeverityWarn},
	PhaseRunning:      {"Running", SeverityOK},
	PhaseNeedsRestart: {"Needs restart", SeverityWarn},
	PhaseStopping:     {"Stopping", SeverityWarn},
	PhaseStopped:      {"Stopped", SeverityIdle},
	PhasePausing:      {"Pausing", SeverityWarn},
	PhasePaused:       {"Paused", SeverityWarn},
	PhaseUpdating:     {"Updating", SeverityWarn},
	PhaseDeleting:     {"Deleting", SeverityWarn},
	PhaseFailed:       {"Failed", SeverityBad},
	PhaseCrashed:      {"Crashed", SeverityBad},
	PhaseMissing:      {"Missing", SeverityBad},
	PhaseLost:         {"Out of reach", SeverityBad},
	PhaseUnknown:      {"Unknown", SeverityUnknown},
}

// DisplayName returns the phase as pages show it: "Needs restart".
func (p Phase) DisplayName() string { return phaseDisplay[p].word }

// Severity returns the phase's severity on pages.
func (p Phase) Severity() Severity { return phaseDisplay[p].severity }
