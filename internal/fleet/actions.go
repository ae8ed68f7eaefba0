package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is an action of users on an object, such as a VM.
type Action string

const (
	ActStart    Action = "start"
	ActShutdown Action = "shutdown"
	ActStop     Action = "stop"
	ActReboot   Action = "reboot"
	ActReset    Action = "reset"
	ActRestart  Action = "restart"
	ActPause    Action = "pause"
	ActResume   Action = "resume"
	ActConsole  Action = "console"
	ActEdit     Action = "edit"
	ActDelete   Action = "delete"

	ActProtect Action = "protect" // change the VM's protection

	// Actions that the guest agent executes. Pages show them beside the guest's status, not in the VM's menu.
	ActFreeze        Action = "freeze"
	ActThaw          Action = "thaw"
	ActGuestPassword Action = "guestpassword"
	ActClock         Action = "clock"
	ActTrim          Action = "trim"
	ActExec          Action = "exec"

	// Actions on drift. Pages show them beside the changed fields, not in the VM's menu.
	ActAcceptDrift Action = "accept-drift"
	ActReapply     Action = "reapply"
	ActIgnoreDrift Action = "ignore-drift"
)

// driftActions are the actions that need drift on an online host.
var driftActions = []Action{ActAcceptDrift, ActReapply, ActIgnoreDrift}

// VMActions lists every action of a VM's menu, in order.
var VMActions = []Action{
	ActStart, ActShutdown, ActStop, ActRestart, ActReboot, ActReset, ActPause, ActResume, ActConsole, ActEdit, ActProtect, ActRelease, ActDelete,
}

type actionRule struct {
	kind    JobKind // kind of the queued job, which also gives the requested power; empty: no job
	label   string  // label; empty: the verb of the job
	needs   []Phase // phases that allow it; nil: any but Deleting
	refusal string  // reason in other phases
}

var actionRules = map[Action]actionRule{
	ActStart: {
		VMStart, "",
		[]Phase{PhaseStopped, PhaseCrashed, PhaseMissing, PhaseFailed},
		"Only a stopped VM can be started.",
	},
	ActShutdown: {
		VMShutdown, "",
		[]Phase{PhaseRunning, PhaseNeedsRestart},
		"Only a running VM can be shut down.",
	},
	ActStop: {
		VMStop, "",
		[]Phase{PhaseRunning, PhaseNeedsRestart, PhasePaused, PhaseCrashed, PhaseStarting, PhaseStopping, PhasePausing, PhaseUpdating},
		"The VM is not running.",
	},
	ActReboot: {VMReboot, "", []Phase{PhaseRunning, PhaseNeedsRestart}, "Only a running VM can be rebooted."},
	ActRestart: {
		VMRestart, "",
		[]Phase{PhaseRunning, PhaseNeedsRestart},
		"Only a running VM can be restarted.",
	},
	ActReset:  {VMReset, "", []Phase{PhaseRunning, PhaseNeedsRestart, PhasePaused, PhaseStopping}, "Only a running VM can be reset."},
	ActPause:  {VMPause, "", []Phase{PhaseRunning, PhaseNeedsRestart}, "Only a running VM can be paused."},
	ActResume: {VMResume, "", []Phase{PhasePaused}, "Only a paused VM can be resumed."},
	ActConsole: {
		"", "Console",
		[]Phase{PhaseRunning, PhaseNeedsRestart, PhasePaused, PhaseStopping, PhaseStarting, PhasePausing, PhaseUpdating},
		"The VM is not running, so it has no screen.",
	},
	ActEdit:    {VMApply, "Edit", nil, ""},
	ActDelete:  {VMDelete, "", nil, ""},
	ActProtect: {"", "Protection", nil, ""},
	ActRelease: {VMRelease, "", nil, ""},
	ActAdopt: {
		DiscoveredAdopt, "",
		[]Phase{PhaseRunning, PhaseNeedsRestart, PhasePaused, PhaseStopped, PhaseCrashed},
		"The VM is changing its state. Try again in a moment.",
	},
	ActFreeze: {VMFreeze, "", guestPhases, guestRefusal},
	ActThaw:   {VMThaw, "", guestPhases, guestRefusal},
	ActClock:  {VMClock, "", guestPhases, guestRefusal},
	ActTrim:   {VMTrim, "", guestPhases, guestRefusal},

	ActGuestPassword: {VMPassword, "", guestPhases, guestRefusal},
	ActExec:          {VMExec, "", guestPhases, guestRefusal},

	ActAcceptDrift: {VMApply, "Accept drift", nil, ""},
	ActReapply:     {VMReapply, "", nil, ""},
	ActIgnoreDrift: {"", "Ignore drift", nil, ""},
}

// guestPhases are the phases that allow actions of the guest agent.
var guestPhases = []Phase{PhaseRunning, PhaseNeedsRestart, PhaseUpdating}

const guestRefusal = "The VM is not running, so its guest agent is not running either."

// GuestActions lists the actions of the guest agent, in menu order.
var GuestActions = []Action{ActFreeze, ActThaw, ActClock, ActTrim, ActGuestPassword, ActExec}

// whyAgentUnreachable returns why the guest agent cannot be reached; empty: it can.
func (vm VM) whyAgentUnreachable() string {
	switch g := vm.Status.Guest; {
	case g == nil:
		return "The host's agent is too old for actions of the guest agent. Upgrade the host's agent."
	case g.Agent == AgentNone:
		return "The VM has no channel for a guest agent. Enable the channel in the VM's configuration, and restart the VM."
	case g.Agent != AgentAnswers:
		return "The guest agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up."
	}
	return ""
}

// whyGuestActionRefused returns why the guest agent cannot do the action; empty: it can.
func (vm VM) whyGuestActionRefused(a Action) string {
	switch guest := vm.Status.Guest; {
	case a != ActExec:
	case !vm.Spec.Policy.GuestExec:
		return "The VM's policy does not allow programs to be run in its guest. An operator can allow them in the VM's configuration."
	case guest != nil && guest.Agent != AgentNone && !vm.Status.Policy.GuestExec:
		return "The host has not yet applied the policy that allows programs in the guest. Wait for the change, or upgrade the host's agent."
	}
	if why := vm.whyAgentUnreachable(); why != "" {
		return why
	}
	switch frozen := vm.Status.Guest.Frozen; {
	case a == ActThaw && !frozen:
		return "The guest's file systems are not frozen."
	case a == ActFreeze && frozen:
		return "The guest's file systems are frozen already."
	case a != ActThaw && frozen:
		return "The guest's file systems are frozen, so the guest agent accepts no other action. Thaw the file systems first."
	}
	return ""
}

// Label returns the action's label on buttons.
func (a Action) Label() string { return cmp.Or(actionRules[a].label, a.JobKind().Info().Verb) }

// JobKind returns the kind of job that the action queues; empty: none.
func (a Action) JobKind() JobKind { return actionRules[a].kind }

// Power returns the power state that the action requests; empty: none.
func (a Action) Power() Power { return actionRules[a].kind.Info().Power }

// MenuActionForJobKind returns the menu action that queues jobs of the kind; empty: none.
func MenuActionForJobKind(k JobKind) Action {
	if i := slices.IndexFunc(VMActions, func(a Action) bool { return a.JobKind() == k }); i >= 0 {
		return VMActions[i]
	}
	return ""
}

// IsKnown reports whether the action exists.
func (a Action) IsKnown() bool { _, ok := actionRules[a]; return ok }

// ActionState reports whether an object allows an action, with the reason if not. Buttons, the API and the job queue
// all use it.
type ActionState struct {
	Action  Action `json:"action"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
	Absent  bool   `json:"-"` // pages omit the action: no role of the user permits it
}

// Allows reports whether the phase allows the action; the string is the reason if not, in one sentence.
func (p Phase) Allows(a Action) (bool, string) {
	rule, ok := actionRules[a]
	switch {
	case !ok:
		return false, fmt.Sprintf("There is no action %q.", string(a))
	case p == PhaseDeleting:
		return false, "The VM is being deleted."
	case rule.needs == nil:
		return true, ""
	}
	if slices.Contains(rule.needs, p) {
		return true, ""
	}
	switch p {
	case PhaseUnknown:
		return false, "Its host is offline, so the VM's state is unknown."
	case PhaseCreating:
		return false, "The VM is still being created."
	case PhaseMissing, PhaseFailed:
		return false, "The VM does not exist on its host."
	case PhaseLost:
		return false, "The VM runs, but libvirt on its host has lost track of it and cannot act on it."
	}
	return false, rule.refusal
}

// Allows reports whether the VM allows the action, by its phase and by all other conditions; the string is the reason
// if not. The action "Force off" also cancels a start: the queued start of a VM that is being created, or the failed
// start of a stopped VM. The VM then needs no attention any more.
func (v VMView) Allows(a Action) (bool, string) {
	ok, why := v.Phase.Allows(a)
	missing := v.missingDiskFault()
	switch {
	case v.ChangeRefusal != "" && a != ActConsole:
		return false, v.ChangeRefusal
	case a == ActStart && v.StartRefusal != "" && (ok || v.Phase == PhaseUnknown):
		return false, v.StartRefusal
	case ok && a == ActDelete && v.Protection.Protected:
		return false, "The VM is protected from deletion. Remove the protection first."
	case ok && slices.Contains(GuestActions, a) && v.Status != nil && v.whyGuestActionRefused(a) != "":
		return false, v.whyGuestActionRefused(a)
	case v.RunsOnTwoHosts() && a != ActConsole:
		return false, "The VM runs on two hosts at once. No action is possible until someone chooses the host that keeps the VM."
	case a != ActProtect && (ok || v.Phase == PhaseLost) && v.faultByCode(FaultLost) != nil:
		return false, v.faultByCode(FaultLost).Text
	case a == ActStop && (v.Phase == PhaseStopped && v.Attention || v.Phase == PhaseCreating && v.RequestedPower == Running):
		return true, ""
	case a == ActRestart && ok && (v.Status == nil || v.Status.StartedAt == nil):
		return false, "The host does not report since when the VM runs, so a restart could not be verified. Shut the VM down, then start it."
	case (a == ActStart || a == ActRestart) && ok && missing != nil:
		return false, missing.Text
	case a == ActStart && ok && v.runsElsewhereRefusal() != "":
		return false, v.runsElsewhereRefusal() + " Two running instances would destroy the disks."
	case ok && slices.Contains(driftActions, a) && v.Phase == PhaseUnknown:
		return false, "Its host is offline, so the VM's state is unknown."
	case ok && slices.Contains(driftActions, a) && (v.Status == nil || len(v.Status.Drift) == 0 && (a != ActReapply || v.faultByCode(FaultUndefined) == nil)):
		return false, "The VM was not changed on its host outside Quantix."
	}
	return ok, why
}

// faultByCode returns the VM's first fault with the code, or nil.
func (v VMView) faultByCode(code FaultCode) *Fault {
	if v.Status == nil {
		return nil
	}
	return v.Status.faultByCode(code)
}

// missingDiskFault returns the first fault of a disk in the spec, or nil.
func (v VMView) missingDiskFault() *Fault {
	for _, d := range v.Spec.Disks {
		if f := v.MissingDiskFault(d.Ref()); f != nil {
			return f
		}
	}
	return nil
}

// Actions lists the state of all menu actions.
func (v VMView) Actions() []ActionState { return v.actionStates(VMActions) }

// GuestActions lists the state of all actions of the guest agent.
func (v VMView) GuestActions() []ActionState { return v.actionStates(GuestActions) }

func (v VMView) actionStates(all []Action) []ActionState {
	out := make([]ActionState, len(all))
	for i, a := range all {
		ok, why := v.Allows(a)
		out[i] = ActionState{Action: a, Allowed: ok, Reason: why}
	}
	return out
}
