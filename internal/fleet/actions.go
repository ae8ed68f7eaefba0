package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is something a person can ask of a VM.
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

	// What a person can do about what somebody changed on the host; beside the changes, in no menu.
	ActProtect Action = "guard" // what guards it from people

	// What a person can ask of the guest's agent; beside what the guest says, in no menu.
	ActFreeze        Action = "freeze"
	ActThaw          Action = "thaw"
	ActGuestPassword Action = "guestpassword"
	ActClock         Action = "clock"
	ActTrim          Action = "trim"
	ActExec          Action = "exec"

	ActAcceptDrift Action = "takeover"
	ActReapply     Action = "putback"
)

// VMActions lists every action in the order in which menus show them.
var VMActions = []Action{
	ActStart, ActShutdown, ActStop, ActRestart, ActReboot, ActReset, ActPause, ActResume, ActConsole, ActEdit, ActProtect, ActDelete,
}

type actionRule struct {
	kind  JobKind // the job it queues, whose power it asks for; empty where it queues none by itself
	word  string  // of its button; empty: the verb of its job
	needs []Phase // phases in which it is possible; nil: any but Deleting
	else_ string  // why not, elsewhere
}

var actionRules = map[Action]actionRule{
	ActStart: {
		VMStart, "",
		[]Phase{PhaseStopped, PhaseCrashed, PhaseMissing, PhaseFailed},
		"Only a VM that is stopped can be started.",
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
	ActFreeze:  {VMFreeze, "", guestPhases, guestElse},
	ActThaw:    {VMThaw, "", guestPhases, guestElse},
	ActClock:   {VMClock, "", guestPhases, guestElse},
	ActTrim:    {VMTrim, "", guestPhases, guestElse},

	ActGuestPassword: {VMPassword, "", guestPhases, guestElse},
	ActExec:          {VMExec, "", guestPhases, guestElse},

	ActAcceptDrift: {VMApply, "Take over", nil, ""},
	ActReapply:     {VMReapply, "", nil, ""},
}

// A guest is asked only while it runs.
var guestPhases = []Phase{PhaseRunning, PhaseNeedsRestart, PhaseUpdating}

const guestElse = "The VM is not running, so there is no guest to ask."

// GuestActions are those that the guest's agent is asked for, in the order in which a menu has them.
var GuestActions = []Action{ActFreeze, ActThaw, ActClock, ActTrim, ActGuestPassword, ActExec}

// whyNoGuest says why the guest's agent cannot be asked; empty: it can.
func (vm VM) whyNoGuest() string {
	switch g := vm.Status.Guest; {
	case g == nil:
		return "Its host's agent is too old to speak to guests. Upgrade it."
	case g.Agent == AgentNone:
		return "The VM has no channel for a guest agent. Switch it on in its configuration, and start the VM anew."
	case g.Agent != AgentAnswers:
		return "The guest's agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up."
	}
	return ""
}

// whyNotGuest says why the guest is not asked for that one thing; empty: it is.
func (vm VM) whyNotGuest(a Action) string {
	switch said := vm.Status.Guest; {
	case a != ActExec:
	case !vm.Spec.Policy.GuestExec:
		return "The VM's policy allows no programs to be run in its guest. Who runs the hosts switches that on in its configuration."
	case said != nil && said.Agent != AgentNone && !vm.Status.Policy.GuestExec:
		return "Its host does not know yet that programs may be run in the guest. Wait until the change is there, or upgrade the host's agent."
	}
	if why := vm.whyNoGuest(); why != "" {
		return why
	}
	switch frozen := vm.Status.Guest.Frozen; {
	case a == ActThaw && !frozen:
		return "The guest's file systems are not frozen."
	case a == ActFreeze && frozen:
		return "The guest's file systems are frozen already."
	case a != ActThaw && frozen:
		return "The guest's file systems are frozen, so that its agent does nothing else. Thaw them first."
	}
	return ""
}

// Label is the action as its button says it.
func (a Action) Label() string { return cmp.Or(actionRules[a].word, a.Job().Is().Verb) }

// Job is the kind of job that the action queues; empty where it queues none.
func (a Action) Job() JobKind { return actionRules[a].kind }

// Power is the power that the action asks for; empty where it asks for none.
func (a Action) Power() Power { return actionRules[a].kind.Is().Power }

// ActionOf is the action of menus that queues jobs of the kind; empty where none does.
func ActionOf(k JobKind) Action {
	if i := slices.IndexFunc(VMActions, func(a Action) bool { return a.Job() == k }); i >= 0 {
		return VMActions[i]
	}
	return ""
}

// Known reports whether there is such an action.
func (a Action) Known() bool { _, ok := actionRules[a]; return ok }

// ActionState is one action of one VM: possible, or why not. The button, the API and the queue all ask it.
type ActionState struct {
	Action  Action `json:"action"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

// Allows says whether the phase allows the action, and if not, why, in one sentence.
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
		return false, "Its host is not heard, so nobody knows what the VM does now."
	case PhaseCreating:
		return false, "The VM is still being created."
	case PhaseMissing, PhaseFailed:
		return false, "The VM does not exist on its host."
	case PhaseLost:
		return false, "Its host takes it for off though it runs, and can do nothing to it."
	}
	return false, rule.else_
}

// Allows is the phase's answer, with what hangs on more than the phase. Forcing off also takes an order back: the start that a
// VM waits for while it is being created, or one that failed for a VM that is off, so that nothing is left for a person to do.
func (v VMView) Allows(a Action) (bool, string) {
	ok, why := v.Phase.Allows(a)
	missing := v.missingDisk()
	switch {
	case v.Barred != "" && a != ActConsole:
		return false, v.Barred
	case ok && a == ActDelete && v.Protection.Protected:
		return false, "It is protected from deletion. Take the protection off first."
	case ok && slices.Contains(GuestActions, a) && v.Status != nil && v.whyNotGuest(a) != "":
		return false, v.whyNotGuest(a)
	case v.Contested() && a != ActConsole:
		return false, "It runs on two hosts at once: nothing is done to it until somebody has said where it is."
	case a != ActProtect && (ok || v.Phase == PhaseLost) && v.fault(FaultLost) != nil:
		return false, v.fault(FaultLost).Text
	case a == ActStop && (v.Phase == PhaseStopped && v.Attention || v.Phase == PhaseCreating && v.Ordered == Running):
		return true, ""
	case a == ActRestart && ok && (v.Status == nil || v.Status.StartedAt == nil):
		return false, "Its host does not tell since when it runs, so that nobody could tell the new run from the old. Shut it down, then start it."
	case (a == ActStart || a == ActRestart) && ok && missing != nil:
		return false, missing.Text
	case a == ActStart && ok && v.heldElsewhere() != "":
		return false, v.heldElsewhere() + " Two of them would destroy the disks."
	case (a == ActAcceptDrift || a == ActReapply) && ok && v.Phase == PhaseUnknown:
		return false, "Its host is not heard, so nobody knows what the VM is like now."
	case (a == ActAcceptDrift || a == ActReapply) && ok && (v.Status == nil || len(v.Status.Drift) == 0 && (a != ActReapply || v.fault(FaultUndefined) == nil)):
		return false, "Nothing of the VM was changed on its host beside Quantix."
	}
	return ok, why
}

// fault is the VM's first fault of the kind; nil: it has none.
func (v VMView) fault(code FaultCode) *Fault {
	if v.Status == nil {
		return nil
	}
	return v.Status.fault(code)
}

// missingDisk is the first fault of a disk that the VM is to have; nil: none.
func (v VMView) missingDisk() *Fault {
	for _, d := range v.Spec.Disks {
		if f := v.FaultOf(d.Ref()); f != nil {
			return f
		}
	}
	return nil
}

// Actions lists all actions for the VM as it is now.
func (v VMView) Actions() []ActionState { return v.actions(VMActions) }

// GuestActions lists those that its guest's agent is asked for.
func (v VMView) GuestActions() []ActionState { return v.actions(GuestActions) }

func (v VMView) actions(all []Action) []ActionState {
	out := make([]ActionState, len(all))
	for i, a := range all {
		ok, why := v.Allows(a)
		out[i] = ActionState{Action: a, Allowed: ok, Reason: why}
	}
	return out
}
