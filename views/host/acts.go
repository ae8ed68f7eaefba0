package host

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// Acts returns the actions on the host, for the menus and the head of its page.
func Acts(a fleet.Actor, h fleet.HostView) []kit.Act {
	path, can := views.HostPath(h.ID), policy.RestrictActions(a, "host", "", h.Actions())
	return []kit.Act{
		{Icon: "server", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs of this host", Href: views.TabPath(path, "vms")},
		kit.Act{Icon: "pencil", Word: "Labels and description", Href: views.TabPath(path, "configure")}.As(can, fleet.ActEdit),
		kit.Act{Icon: "shield-check", Word: "Clear the conflict", Post: views.HostPath(h.ID, "conflict"), Back: path}.As(can, fleet.ActClearConflict),
		kit.Act{Icon: "key-round", Word: "Join again", Href: views.JoinAgainPath(h.ID)}.As(can, fleet.ActJoinAgain),
		kit.Act{Icon: "trash-2", Word: "Remove host", Href: views.HostPath(h.ID, "delete"), Dialog: true, Danger: true}.As(can, fleet.ActDelete),
	}
}
