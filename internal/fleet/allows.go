package fleet

import (
	"fmt"
	"slices"
)

// Actions on hosts, pools, networks, projects and users. VMActions lists the actions on VMs, which depend on phases.
// Each resource type has one table of conditions, which buttons, menus, the API and the use cases all query.
const (
	ActCordon        Action = "cordon"         // of a host: place no more VMs on it
	ActUncordon      Action = "uncordon"       // of a host: place VMs on it again
	ActAddHosts      Action = "add-hosts"      // of a cluster: move hosts into it
	ActClearConflict Action = "clear-conflict" // of a host: clear an identity conflict

	ActEnterMaintenance Action = "enter-maintenance" // of a host: move its VMs away or shut them down
	ActLeaveMaintenance Action = "leave-maintenance" // of a host: start and bring back its VMs
	ActRebootHost       Action = "reboot"            // of a host in maintenance
	ActShutDownHost     Action = "shutdown"          // of a host in maintenance
	ActDiagnoseHost     Action = "run-diagnostics"   // of a host: collect diagnostics
	ActReadAgentLog     Action = "read-agent-log"    // of a host: read the last lines of its agent's log
	ActRestartAgent     Action = "restart-agent"     // of a host: restart its agent; VMs are untouched

	ActUpgradeAgent Action = "upgrade-agent" // of a host: replace its agent by a signed release

	ActPowerOn       Action = "power-on"  // of a host that is offline, through its BMC
	ActForcePowerOff Action = "power-off" // of a host, through its BMC; ActReset also
	ActTerminate     Action = "terminate" // of a host: drain it, power it off, remove it

	ActJoinAgain   Action = "join-again"  // of a host: create a join token for its new agent
	ActAssign      Action = "assign"      // of a pool or network: assign it to more hosts
	ActRetry       Action = "retry"       // of a pool or network on one host: apply it again; also the "Start" button if it was stopped on the host
	ActRelease     Action = "release"     // of a pool or network on one host: unassign it; of a VM: Quantix forgets it
	ActAdopt       Action = "adopt"       // of a discovered VM: make it a VM of a project
	ActCredentials Action = "credentials" // of a pool with credentials: replace them
	ActGrant       Action = "grant"       // of a network: publish it to a project
	ActPassword    Action = "password"    // of a user: set a new password
	ActCancel      Action = "cancel"      // of a task: cancel it
)

// ActionEntry is one action in a resource type's table. Why returns the reason why the object refuses the action now,
// in one sentence; empty: the action is allowed. If Why is nil, the action is always allowed.
type ActionEntry[T any] struct {
	Action Action
	Why    func(T) string
}

// ActionTable lists the actions of a resource type, in the order of its menu.
type ActionTable[T any] []ActionEntry[T]

// Allows reports whether the object allows the action now; the string is the reason if not.
func (o ActionTable[T]) Allows(of T, a Action) (bool, string) {
	for _, entry := range o {
		if entry.Action != a {
			continue
		}
		if entry.Why == nil {
			return true, ""
		}
		why := entry.Why(of)
		return why == "", why
	}
	return false, fmt.Sprintf("There is no action %q.", string(a))
}

// States returns the state of every action of the object.
func (o ActionTable[T]) States(of T) []ActionState {
	out := make([]ActionState, len(o))
	for i, entry := range o {
		out[i] = ActionState{Action: entry.Action}
		out[i].Allowed, out[i].Reason = o.Allows(of, entry.Action)
	}
	return out
}

var hostActions = ActionTable[HostView]{
	{ActEdit, nil},
	{ActCordon, func(h HostView) string {
		if !h.Spec.Schedulable {
			return "The host is cordoned already."
		}
		return ""
	}},
	{ActUncordon, func(h HostView) string {
		if h.Spec.Schedulable {
			return "The host is not cordoned."
		}
		return ""
	}},
	{ActClearConflict, func(h HostView) string {
		if h.Conflict == "" {
			return "Only one agent shows this host's identity."
		}
		return ""
	}},
	{ActEnterMaintenance, func(h HostView) string { return h.Lifecycle.Refusal(HostEnterMaintenance, h.Name) }},
	{ActLeaveMaintenance, func(h HostView) string { return h.Lifecycle.Refusal(HostLeaveMaintenance, h.Name) }},
	{ActRebootHost, hostPowerRefusal},
	{ActShutDownHost, hostPowerRefusal},
	{ActDiagnoseHost, agentCommandRefusal(HostDiagnose)},
	{ActReadAgentLog, agentCommandRefusal(HostAgentLog)},
	{ActRestartAgent, agentCommandRefusal(HostAgentRestart)},
	{ActUpgradeAgent, upgradeRefusal},
	{ActPowerOn, powerOnRefusal},
	{ActForcePowerOff, forcedPowerRefusal},
	{ActReset, forcedPowerRefusal},
	{ActJoinAgain, nil},
	{ActTerminate, terminateRefusal},
	{ActDelete, func(h HostView) string {
		if why := h.Lifecycle.Refusal(HostRemove, h.Name); why != "" {
			return why
		}
		remaining := h.VMs
		if h.Phase == HostUnknown || h.Phase == HostPending { // an offline host never reports the deletion of its VMs
			remaining -= h.Deleting
		}
		if remaining == 0 {
			return ""
		}
		return fmt.Sprintf("The host still has %s. Delete them first.", CountWithUnit(remaining, "VM"))
	}},
}

// hostPowerRefusal returns why the host can neither be rebooted nor shut down; empty: it can.
func hostPowerRefusal(h HostView) string {
	if why := h.Lifecycle.Refusal(HostPowerCommand, h.Name); why != "" {
		return why
	}
	if !h.AgentSettings().HostPower {
		return fmt.Sprintf("agent.yaml of %s does not allow it: set hostPower: true.", h.Name)
	}
	return ""
}

// agentCommandRefusal returns the function that returns why a host's agent cannot run jobs of the kind; empty: it can.
func agentCommandRefusal(kind JobKind) func(HostView) string {
	return func(h HostView) string {
		switch {
		case h.Phase == HostPending:
			return fmt.Sprintf(neverReported, h.Name)
		case h.Phase == HostUnknown:
			return h.Name + " is offline."
		case !slices.Contains(h.AgentSettings().Commands, kind):
			return fmt.Sprintf("The agent of %s (version %s) does not support this. Upgrade the agent.", h.Name, h.agentVersion())
		}
		return ""
	}
}

// upgradeRefusal returns why the portal cannot upgrade the host's agent; empty: it can.
func upgradeRefusal(h HostView) string {
	switch {
	case h.Phase != HostOnline && h.Phase != HostDegraded:
		return "The host is not online."
	case h.Status == nil || h.Status.Platform == "":
		return "The agent is too old to be upgraded by the portal. Replace its program by hand once."
	case len(h.AgentSettings().UpgradeKeys) == 0:
		return fmt.Sprintf("agent.yaml of %s does not allow it: set upgradeKeys.", h.Name)
	}
	return ""
}

// HostPowerJobKind returns the kind of job that the power action queues on a host; empty: none.
func (a Action) HostPowerJobKind() JobKind {
	return map[Action]JobKind{ActRebootHost: HostReboot, ActShutDownHost: HostShutdown}[a]
}

// Allows reports whether the host allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (h HostView) Allows(a Action) (bool, string) { return hostActions.Allows(h, a) }
func (h HostView) Actions() []ActionState         { return hostActions.States(h) }

var poolActions = ActionTable[Pool]{{ActAssign, poolDeletingRefusal}, {ActEdit, poolDeletingRefusal}, {ActDelete, poolDeletingRefusal}, {ActCredentials, func(p Pool) string {
	switch {
	case p.Spec.Kind.Info().Secret == nil:
		return "Pools of this kind have no credentials."
	case p.Spec.User == "":
		return "The pool was created without a user name: its storage needs no credentials."
	}
	return poolDeletingRefusal(p)
}}}

func poolDeletingRefusal(p Pool) string {
	if p.DeletedAt == nil {
		return ""
	}
	return "The pool is being deleted. The deletion ends when the last host has released the pool."
}

// Allows reports whether the pool allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (p Pool) Allows(a Action) (bool, string) { return poolActions.Allows(p, a) }
func (p Pool) Actions() []ActionState         { return poolActions.States(p) }

var poolHostActions = ActionTable[PoolHost]{
	{ActRetry, func(p PoolHost) string {
		switch {
		case !p.Assigned:
			return poolReleasingRefusal(p)
		case p.State == PoolActive:
			return "The pool is active there."
		case p.State == PoolUnknown:
			return "The host is offline. It retries when it is online again."
		case p.State == PoolPending:
			return "The host has not finished yet."
		}
		return ""
	}},
	{ActRelease, poolReleasingRefusal},
	{ActReapply, poolDriftRefusal},
	{ActIgnoreDrift, poolDriftRefusal},
	{ActAcceptDrift, func(PoolHost) string {
		return "The kind and the location of a pool are fixed. Reapply, or create another pool for this location."
	}},
}

func poolDriftRefusal(p PoolHost) string {
	return hostDriftRefusal(poolReleasingRefusal(p), p.State == PoolUnknown, p.Status != nil && len(p.Status.Drift) > 0)
}

// hostDriftRefusal returns why the drift of an object on a host cannot be resolved; empty: it can. assigned is the
// refusal of an object that is not assigned to the host.
func hostDriftRefusal(assigned string, offline, changed bool) string {
	switch {
	case assigned != "":
		return assigned
	case !changed:
		return "The definition was not changed on the host outside Quantix."
	case offline:
		return "The host is offline, so its definition is unknown."
	}
	return ""
}

func poolReleasingRefusal(p PoolHost) string {
	if p.Assigned {
		return ""
	}
	return p.HostName + " is releasing the pool."
}

// Allows reports whether the pool on this host allows the action now; the string is the reason if not. Actions lists
// the state of every action.
func (p PoolHost) Allows(a Action) (bool, string) { return poolHostActions.Allows(p, a) }
func (p PoolHost) Actions() []ActionState         { return poolHostActions.States(p) }

var networkActions = ActionTable[NetworkView]{
	{ActGrant, func(NetworkView) string { return "" }},
	{ActAssign, func(n NetworkView) string { return n.changeRefusal() }},
	{ActEdit, func(n NetworkView) string { return n.changeRefusal() }},
	{ActDelete, func(n NetworkView) string {
		if n.Spec == nil {
			return unmanagedNetwork + " It disappears when no host reports it any more."
		}
		return n.changeRefusal()
	}},
}

const unmanagedNetwork = "The network was discovered on hosts and is not managed here."

// changeRefusal returns why users cannot change the network; empty: they can.
func (n Network) changeRefusal() string {
	switch {
	case n.Spec == nil:
		return unmanagedNetwork
	case n.DeletedAt != nil:
		return "The network is being deleted. The deletion ends when the last host has released the network."
	}
	return ""
}

// Allows reports whether the network allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v NetworkView) Allows(a Action) (bool, string) { return networkActions.Allows(v, a) }
func (v NetworkView) Actions() []ActionState         { return networkActions.States(v) }

var networkHostActions = ActionTable[NetworkHost]{
	{ActRetry, func(h NetworkHost) string {
		switch {
		case !h.Assigned:
			return networkHostRefusal(h)
		case h.State == NetworkActive:
			return "The network is active there."
		case h.State == NetworkUnknown:
			return "The host is offline. It retries when it is online again."
		case h.State == NetworkPending:
			return "The host has not finished yet."
		}
		return ""
	}},
	{ActRelease, networkHostRefusal},
	{ActReapply, func(h NetworkHost) string {
		if h.Assigned && h.Status != nil && h.Status.Definition != nil {
			return AdoptedReapplyRefusal
		}
		return networkDriftRefusal(h)
	}},
	{ActIgnoreDrift, networkDriftRefusal},
	{ActAcceptDrift, networkDriftRefusal},
}

func networkDriftRefusal(h NetworkHost) string {
	return hostDriftRefusal(networkHostRefusal(h), h.State == NetworkUnknown, h.Status != nil && len(h.Status.Drift) > 0)
}

// networkHostRefusal returns why the network on the host allows no actions: it is not assigned, or is being released.
func networkHostRefusal(h NetworkHost) string {
	switch {
	case h.Assigned:
		return ""
	case h.Releasing:
		return h.HostName + " is releasing the network."
	case h.Status != nil && h.Status.NameTaken:
		return h.HostName + " has another network of this name, which Quantix did not create."
	}
	return "The network is not assigned to " + h.HostName + "."
}

// Allows reports whether the network on this host allows the action now; the string is the reason if not. Actions lists
// the state of every action.
func (h NetworkHost) Allows(a Action) (bool, string) { return networkHostActions.Allows(h, a) }
func (h NetworkHost) Actions() []ActionState         { return networkHostActions.States(h) }

var projectActions = ActionTable[Project]{
	{ActEdit, nil},
	{ActDelete, func(p Project) string {
		if p.VMs == 0 {
			return ""
		}
		return "The project still has " + CountWithUnit(p.VMs, "VM") + ". Delete them first."
	}},
}

// Allows reports whether the project allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (p Project) Allows(a Action) (bool, string) { return projectActions.Allows(p, a) }
func (p Project) Actions() []ActionState         { return projectActions.States(p) }

var taskActions = ActionTable[Task]{{ActCancel, func(t Task) string {
	is := t.Kind.Info()
	switch {
	case t.State.IsFinal():
		return "The task has ended."
	case t.Steps != nil && t.Steps.Queued == 0:
		return "No step of the task is queued any more."
	case t.Steps == nil && is.WhyNotCancellableOnceBegun != "" && t.Attempt > 0:
		return is.WhyNotCancellableOnceBegun
	case t.Steps == nil && t.State == JobRunning && (is.Stoppable || is.CancelledAtOnce):
		return ""
	case t.Steps == nil && t.State == JobRunning:
		return "The host is already executing the task's job."
	}
	return is.WhyNotCancellable
}}}

// Allows reports whether the task allows the action now; the string is the reason if not.
func (t Task) Allows(a Action) (bool, string) { return taskActions.Allows(t, a) }

// userWithActor is a user together with the user who acts on the account.
type userWithActor struct {
	User
	by UserID
}

var userActions = ActionTable[userWithActor]{
	{ActEdit, nil},
	{ActPassword, func(u userWithActor) string {
		if u.ID == u.by {
			return "Change your own password on your account's page."
		}
		return ""
	}},
	{ActDelete, func(u userWithActor) string {
		if u.ID == u.by {
			return "You cannot delete yourself. Ask another administrator."
		}
		return ""
	}},
}

// AllowsActionBy reports whether user by may do the action to u now; the string is the reason if not. ActionsBy lists
// the state of every action.
func (u User) AllowsActionBy(by UserID, a Action) (bool, string) {
	return userActions.Allows(userWithActor{u, by}, a)
}

func (u User) ActionsBy(by UserID) []ActionState {
	return userActions.States(userWithActor{u, by})
}
