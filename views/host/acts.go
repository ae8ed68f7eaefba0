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
	enter := kit.ActionButton{Icon: "wrench", Word: enterMaintenance, Href: views.HostPath(h.ID, "maintenance"), Dialog: true, Separated: true}
	if h.Lifecycle == fleet.LifecycleDraining {
		enter.Word = resumeMaintenance
	}
	return []kit.ActionButton{
		{Icon: "server", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs of this host", Href: views.TabPath(path, "vms")},
		kit.ActionButton{Icon: "pencil", Word: "Settings", Href: views.TabPath(path, "configure")}.WithReasonFrom(can, fleet.ActEdit),
		kit.ActionButton{Icon: "ban", Word: "Cordon", Post: views.HostPath(h.ID, "cordon"), Back: path}.WithReasonFrom(can, fleet.ActCordon),
		kit.ActionButton{Icon: "circle-check", Word: "Uncordon", Post: views.HostPath(h.ID, "uncordon"), Back: path}.WithReasonFrom(can, fleet.ActUncordon),
		enter.WithReasonFrom(can, fleet.ActEnterMaintenance),
		kit.ActionButton{Icon: "circle-play", Word: leaveMaintenance, Href: views.HostPath(h.ID, "leave-maintenance"), Dialog: true}.WithReasonFrom(can, fleet.ActLeaveMaintenance),
		kit.ActionButton{Icon: "rotate-cw", Word: "Reboot host", Href: views.HostPath(h.ID, string(fleet.ActRebootHost)), Dialog: true}.WithReasonFrom(can, fleet.ActRebootHost),
		kit.ActionButton{Icon: "power-off", Word: "Shut down host", Href: views.HostPath(h.ID, string(fleet.ActShutDownHost)), Dialog: true}.WithReasonFrom(can, fleet.ActShutDownHost),
		kit.ActionButton{Icon: "file-text", Word: runDiagnostics, Separated: true, Href: views.HostPath(h.ID, "diagnostics"), Dialog: true}.WithReasonFrom(can, fleet.ActDiagnoseHost),
		kit.ActionButton{Icon: "refresh-cw", Word: restartAgent, Href: views.HostPath(h.ID, string(fleet.ActRestartAgent)), Dialog: true}.WithReasonFrom(can, fleet.ActRestartAgent),
		kit.ActionButton{Icon: "upload", Word: "Upgrade agent", Href: UpgradePath + "?host=" + string(h.ID) + "&filter=name:" + h.Name}.WithReasonFrom(can, fleet.ActUpgradeAgent),
		{Icon: "power", Word: "Power through BMC", Submenu: []kit.ActionButton{
			kit.ActionButton{Icon: "power", Word: "Power on", Href: views.HostPath(h.ID, string(fleet.ActPowerOn)), Dialog: true}.WithReasonFrom(can, fleet.ActPowerOn),
			kit.ActionButton{Icon: "power-off", Word: "Force power off", Href: views.HostPath(h.ID, string(fleet.ActForcePowerOff)), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActForcePowerOff),
			kit.ActionButton{Icon: "rotate-cw", Word: "Reset", Href: views.HostPath(h.ID, string(fleet.ActReset)), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActReset),
		}},
		kit.ActionButton{Icon: "shield-check", Word: "Clear the conflict", Separated: true, Post: views.HostPath(h.ID, "conflict"), Back: path}.WithReasonFrom(can, fleet.ActClearConflict),
		kit.ActionButton{Icon: "key-round", Word: "Join again", Href: views.RejoinHostPath(h.ID)}.WithReasonFrom(can, fleet.ActJoinAgain),
		kit.ActionButton{Icon: "circle-stop", Word: "Terminate host", Href: views.HostPath(h.ID, string(fleet.ActTerminate)), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActTerminate),
		kit.ActionButton{Icon: "trash-2", Word: "Remove host", Href: views.HostPath(h.ID, "delete"), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActDelete),
	}
}
