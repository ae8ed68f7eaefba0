package fleet

import "time"

// Freshness is how long a host's report is believed. Past it, all that the host said counts as unknown.
const Freshness = 30 * time.Second

// Phase is the one status word for an object. It is derived, never stored.
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
	PhaseFailed       Phase = "failed"  // could not be created
	PhaseCrashed      Phase = "crashed" // the guest or its QEMU died
	PhaseMissing      Phase = "missing" // was made, but the host no longer has it
	PhaseLost         Phase = "lost"    // runs on, but the host's hypervisor takes it for off
	PhaseUnknown      Phase = "unknown" // the host is not heard
)

// VMPhases lists every phase of a VM, for filters and completion.
var VMPhases = []Phase{
	PhaseCreating, PhaseStarting, PhaseRunning, PhaseNeedsRestart, PhaseStopping, PhaseStopped, PhasePausing,
	PhasePaused, PhaseUpdating, PhaseDeleting, PhaseFailed, PhaseCrashed, PhaseMissing, PhaseLost, PhaseUnknown,
}

// ClockStep is how far in the future something may have been seen: further, the clock of the database has been set back since, and
// nobody knows how old it is.
const ClockStep = 5 * time.Second

// Fresh reports whether something seen at that time (nil: never) is still believed now. The SQL function is_fresh is the
// same decision.
func Fresh(seen *time.Time, now time.Time) bool {
	return seen != nil && now.Sub(*seen) <= Freshness && seen.Sub(now) <= ClockStep
}

// Phase derives the VM's status word. seen is how old what its host says is. What a person ordered is one thing until it has
// ended: whatever the host reports by the way, the VM is on its way to that power. The SQL function vm_phase is the same decision
// for filters; a test holds the two together.
func (vm VM) Phase(seen *time.Time, now time.Time) Phase {
	pending := vm.Generation > vm.ObservedGeneration
	switch {
	case vm.DeletedAt != nil:
		return PhaseDeleting
	case vm.Status == nil || vm.ObservedGeneration == 0:
		return PhaseCreating
	case !Fresh(seen, now):
		return PhaseUnknown
	case vm.Status.Power == Absent && (pending || vm.Ordered != ""):
		return PhaseCreating
	case vm.Status.Power == Absent && vm.Status.Error != "":
		return PhaseFailed
	case vm.Status.Power == Absent:
		return PhaseMissing
	case vm.Ordered != "":
		return towards(vm.Ordered)
	case pending:
		return PhaseUpdating
	}
	return settled(*vm.Status)
}

// NeedsAttention reports whether the VM waits for a person: its host is not heard, something is wrong with it there, it
// has drifted, two hosts run it, it expires, or nothing is on its way and the VM is gone, has crashed, or its last
// order failed and did not come about in another way. A later order that succeeds ends it, but for what is wrong.
// Column vms.attention is the same decision for hosts that are heard; a test holds the two together.
func (vm VM) NeedsAttention(seen *time.Time, now time.Time) bool {
	switch {
	case vm.DeletedAt != nil || vm.Status == nil || vm.ObservedGeneration == 0:
		return false
	case !Fresh(seen, now):
		return true
	case len(vm.Status.Faults) > 0 || len(vm.Status.Drift) > 0 || vm.Contested() || vm.Protection.Expiry != "" || vm.ScheduleTrouble != "" || len(vm.Misplaced) > 0:
		return true
	}
	return vm.idle() && (vm.Status.Power == Absent || vm.Status.Power == Crashed) || vm.OrderFailed()
}

// idle reports whether no order of the VM is pending on its host.
func (vm VM) idle() bool { return vm.Generation <= vm.ObservedGeneration && vm.Ordered == "" }

// OrderFailed reports whether the VM's last order failed, did not come about in another way, and no newer one is on its
// way.
func (vm VM) OrderFailed() bool {
	return vm.Status != nil && vm.idle() && vm.Status.Error != "" && !vm.cameAbout()
}

// cameAbout reports whether the failed order was one for a power that the VM has by now: its guest took its time to shut down,
// or somebody started it on the host.
func (vm VM) cameAbout() bool {
	return vm.Status.ErrorOf.Is().Power != "" && vm.Status.Power == vm.Spec.Power
}

func towards(want Power) Phase {
	switch want {
	case Running:
		return PhaseStarting
	case Paused:
		return PhasePausing
	}
	return PhaseStopping
}

func settled(s VMStatus) Phase {
	if s.fault(FaultLost) != nil {
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

// PhaseAt is the phase of a found VM: what the host says, or unknown where the host is silent.
func (f DiscoveredVM) PhaseAt(seen *time.Time, now time.Time) Phase {
	if !Fresh(seen, now) {
		return PhaseUnknown
	}
	return settled(f.Status)
}

// Severity is how a state is drawn: colour and icon follow from it.
type Severity string

const (
	SeverityOK      Severity = "ok"
	SeverityWarn    Severity = "warn"
	SeverityBad     Severity = "bad"
	SeverityUnknown Severity = "unknown"
	SeverityIdle    Severity = "idle"
)

var phaseLooks = map[Phase]struct {
	word string
	tone Severity
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

// Word is the phase as people read it: "Needs restart".
func (p Phase) Word() string { return phaseLooks[p].word }

// Severity is how the phase is drawn.
func (p Phase) Severity() Severity { return phaseLooks[p].tone }
