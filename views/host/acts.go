package host

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// Actions returns the actions on the host, for the menus and the head of its page.
func Actions(a fleet.Actor, h fleet.HostView) []kit.ActionButton {
	path, can := views.HostPath(h.ID), policy.RestrictActions(a, "host", "", h.Actions())
	return []kit.ActionButton{
		{Icon: "server", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs of this host", Href: views.TabPath(path, "vms")},
		kit.ActionButton{Icon: "pencil", Word: "Settings", Href: views.TabPath(path, "configure")}.WithReasonFrom(can, fleet.ActEdit),
		kit.ActionButton{Icon: "ban", Word: "Cordon", Post: views.HostPath(h.ID, "cordon"), Back: path}.WithReasonFrom(can, fleet.ActCordon),
		kit.ActionButton{Icon: "circle-check", Word: "Uncordon", Post: views.HostPath(h.ID, "uncordon"), Back: path}.WithReasonFrom(can, fleet.ActUncordon),
		kit.ActionButton{Icon: "shield-check", Word: "Clear the conflict", Post: views.HostPath(h.ID, "conflict"), Back: path}.WithReasonFrom(can, fleet.ActClearConflict),
		kit.ActionButton{Icon: "key-round", Word: "Join again", Href: views.RejoinHostPath(h.ID)}.WithReasonFrom(can, fleet.ActJoinAgain),
		kit.ActionButton{Icon: "trash-2", Word: "Remove host", Href: views.HostPath(h.ID, "delete"), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActDelete),
	}
}
