package kit

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

// AssignedObject is a pool or a network, which are assigned to hosts, as the actor sees it. The pages of pools and
// networks share its dialogs and actions.
type AssignedObject struct {
	Actor  fleet.Actor
	Type   fleet.ResourceType
	ID     string
	Name   string
	States []fleet.ActionState // of the object
}

// AssignedHostStatus is the object's state on one host.
type AssignedHostStatus struct {
	HostID  fleet.HostID
	Host    string
	States  []fleet.ActionState // of the object on the host
	Stopped bool                // stopped outside Quantix, by the host's newest report
	Failing bool                // unusable on the host
	Stays   bool                // the host keeps the object after a release, because it existed before Quantix
}

func (e AssignedObject) pagePath() string { return e.Type.Info().PagePath(e.ID) }

func (e AssignedObject) actionStates(states []fleet.ActionState) []fleet.ActionState {
	return policy.RestrictActions(e.Actor, e.Type.Info().Label, "", states)
}

// HostStates returns the states of actions on the object on a host, with the reasons of the actor's permissions.
func (e AssignedObject) HostStates(states []fleet.ActionState) []fleet.ActionState {
	return e.actionStates(states)
}

// AssignAction opens the dialog that assigns the object to more hosts.
func (e AssignedObject) AssignAction() ActionButton {
	return ActionButton{Icon: "plug", Word: "Assign to hosts", Href: e.pagePath() + "/assign", Dialog: true}.WithReasonFrom(e.actionStates(e.States), fleet.ActAssign)
}

// DeleteAction opens the dialog that deletes the object from Quantix and from all hosts.
func (e AssignedObject) DeleteAction() ActionButton {
	return ActionButton{Icon: "trash-2", Word: "Delete " + e.Type.Info().Label, Href: e.pagePath() + "/delete", Dialog: true, Danger: true}.WithReasonFrom(e.actionStates(e.States), fleet.ActDelete)
}

// EditLabelsAction opens the dialog of the host labels. Hosts with these labels get the object automatically.
func (e AssignedObject) EditLabelsAction() ActionButton {
	return ActionButton{Icon: "pencil", Word: "Edit", Label: "Edit labels", Href: e.pagePath() + "/labels", Dialog: true}.WithReasonFrom(e.actionStates(e.States), fleet.ActEdit)
}

// HostActions are the actions on the object on one host. vms is an action that lists the VMs that use the object on
// that host.
func (e AssignedObject) HostActions(c AssignedHostStatus, vms ActionButton) []ActionButton {
	at, can := e.pagePath()+"/hosts/"+string(c.HostID), e.actionStates(c.States)
	retry := ActionButton{Icon: "refresh-cw", Word: "Try again", Post: at + "/retry", Back: e.pagePath()}.WithReasonFrom(can, fleet.ActRetry)
	if c.Stopped {
		retry.Icon, retry.Word = "play", "Start"
	}
	return []ActionButton{
		retry,
		vms,
		{Icon: "server", Word: "Open " + c.Host, Href: views.HostPath(c.HostID)},
		ActionButton{Icon: "unplug", Word: "Release from " + c.Host, Href: at + "/release", Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActRelease),
	}
}

// helpTopic is the manual's topic about the assignment to hosts.
func (e AssignedObject) helpTopic() Topic {
	if e.Type == fleet.TypeNetwork {
		return HelpNetworkHosts
	}
	return HelpAssign
}

// RetryActions returns the retry action in the page's head: one for all failed hosts, or for the only failed host. It
// returns nil if no host failed or the actor may not see hosts. statuses are those of the first hosts; all and failed
// are the numbers of all hosts and of failed hosts.
func (e AssignedObject) RetryActions(statuses []AssignedHostStatus, all, failed int) []ActionButton {
	if !policy.May(e.Actor, policy.InfraSee, "") {
		return nil
	}
	var first []ActionButton
	count := 0
	for _, c := range statuses {
		if !c.Stopped && (ActionButton{}).WithReasonFrom(c.States, fleet.ActRetry).Why == "" {
			count++
		}
		if c.Failing && first == nil {
			first = []ActionButton{e.retryOnHostAction(c)}
		}
	}
	if len(statuses) < all {
		count = max(count, failed)
	}
	if count <= 1 {
		return first
	}
	return []ActionButton{ActionButton{Icon: "refresh-cw", Word: "Retry " + CountText(count, "failed host"), Post: e.pagePath() + "/retry", Back: e.pagePath()}.RequirePermission(e.Actor, policy.InfraChange)}
}

func (e AssignedObject) retryOnHostAction(c AssignedHostStatus) ActionButton {
	retry := e.HostActions(c, ActionButton{})[0]
	retry.Word = "Retry " + c.Host
	if c.Stopped {
		retry.Word = "Start on " + c.Host
	}
	return retry
}

func (e AssignedObject) withLabelDialog(f HostLabelForm) HostLabelForm {
	f.Of = string(fleet.SubjectOf(e.Type, e.ID))
	f.Dialog = Dialog{Title: "Hosts that get " + e.Name + " by label", Action: e.pagePath() + "/labels", Button: "Save", Why: e.whyNotAllowed(fleet.ActEdit), Back: e.pagePath()}
	return f
}

// whyNotAllowed is the reason why the object's state forbids the action; empty: allowed. It ignores permissions, which are
// checked before a dialog opens.
func (e AssignedObject) whyNotAllowed(a fleet.Action) string {
	return ActionButton{}.WithReasonFrom(e.States, a).Why
}
