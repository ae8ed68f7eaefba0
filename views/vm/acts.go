package vm

import (
	"cmp"
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
	"quantix/views"
	"quantix/views/kit"
)

var actionIcons = map[fleet.Action]string{
	fleet.ActStart: "play", fleet.ActShutdown: "power", fleet.ActStop: "power-off", fleet.ActReboot: "rotate-cw", fleet.ActReset: "zap", fleet.ActRestart: "refresh-cw",
	fleet.ActPause: "pause", fleet.ActResume: "play", fleet.ActConsole: "monitor", fleet.ActEdit: "pencil", fleet.ActProtect: "shield", fleet.ActRelease: "log-out", fleet.ActDelete: "trash-2",
}

// PowerConfirmation is the confirmation of a power action that interrupts the guest's services.
type PowerConfirmation struct {
	One, Many string // effect on one guest, and on several
	LosesData bool   // the guest loses unwritten data
}

// PowerConfirmations are the power actions that ask for confirmation.
var PowerConfirmations = map[fleet.Action]PowerConfirmation{
	fleet.ActShutdown: {"The guest shuts down, and the VM stays off until it is started.", "The guests shut down, and the VMs stay off until they are started.", false},
	fleet.ActRestart:  {"The guest shuts down, and the VM starts again.", "The guests shut down, and the VMs start again.", false},
	fleet.ActReboot:   {"The guest reboots.", "The guests reboot.", false},
	fleet.ActReset:    {"The guest is not shut down cleanly: unwritten data is lost.", "The guests are not shut down cleanly: unwritten data is lost.", true},
	fleet.ActStop:     {"The guest is not shut down cleanly: unwritten data is lost.", "The guests are not shut down cleanly: unwritten data is lost.", true},
}

func actionButton(vm fleet.VMView, s fleet.ActionState) kit.ActionButton {
	a := kit.ActionButton{Icon: actionIcons[s.Action], Word: s.Action.Label(), Absent: s.Absent}
	if !s.Allowed {
		a.Why = cmp.Or(s.Reason, "This is not possible now.")
	}
	switch s.Action {
	case fleet.ActConsole:
		a.Href, a.Separated = views.VMPath(vm.ID, "console"), true
	case fleet.ActEdit:
		a.Word, a.Href = "Edit settings", views.TabPath(views.VMPath(vm.ID), "configure")
	case fleet.ActProtect:
		a.Href, a.Dialog = views.VMPath(vm.ID, "guard"), true
		a.Word += "…"
	case fleet.ActRelease:
		a.Href, a.Dialog = views.VMPath(vm.ID, "release"), true
		a.Word += "…"
	case fleet.ActDelete:
		a.Href, a.Dialog, a.Danger = views.VMPath(vm.ID, "delete"), true, true
		if s.Allowed {
			a.Word += "…"
		}
	default:
		return PowerButton(s, vm.Name, views.VMPath(vm.ID, "actions"))
	}
	return a
}

// PowerButton is the button of a power action on the VM with the name, with its confirmation. post is the address that
// takes the action.
func PowerButton(s fleet.ActionState, name, post string) kit.ActionButton {
	a := kit.ActionButton{Icon: actionIcons[s.Action], Word: s.Action.Label(), Absent: s.Absent, Post: post, PostValues: []kit.FormValue{{Name: "action", Value: string(s.Action)}}}
	if !s.Allowed {
		a.Why = cmp.Or(s.Reason, "This is not possible now.")
	}
	if c, asks := PowerConfirmations[s.Action]; asks {
		a.Confirm = a.Word + " " + name + "? " + c.One
		if !c.LosesData {
			a.ConfirmTone = "primary"
		}
	}
	return a
}

// PowerActions are the actions of the power submenu, in vCenter's order.
var PowerActions = []fleet.Action{
	fleet.ActStart, fleet.ActShutdown, fleet.ActRestart, fleet.ActReboot, fleet.ActPause, fleet.ActResume, fleet.ActReset, fleet.ActStop,
}

// actionMenu is the VM's action menu, the same on the VM's page, in list rows and in the tree. Labels and order follow
// vCenter.
func (p Page) actionMenu() []kit.ActionButton {
	if len(p.Actions) == 0 {
		return nil
	}
	power := make([]kit.ActionButton, len(PowerActions))
	for i, a := range PowerActions {
		power[i] = p.actionButton(a)
	}
	clone := kit.ActionButton{Icon: "copy", Word: "Clone", Href: clonePath(p.VM.ID), Separated: true}.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(kit.RefusalReason(vmcopy.AllowsClone(p.VM)))
	template := kit.ActionButton{Icon: "layers", Word: "Make a template…", Href: p.path("template"), Dialog: true}.DisableFrom(p.Actions, fleet.ActEdit)
	if images, _ := vmcopy.AllowsTemplateOfImages(p.VM); !images {
		template = template.DisableFor(kit.RefusalReason(vmcopy.AllowsTemplate(p.VM)))
	}
	edit := p.actionButton(fleet.ActEdit)
	edit.Separated = true
	return []kit.ActionButton{
		{Icon: "power", Word: "Power", Submenu: power},
		{Icon: "terminal", Word: "Guest", Submenu: p.guestActions()},
		{Icon: "camera", Word: "Snapshots", Submenu: []kit.ActionButton{p.takeSnapshotAction(), {Icon: "history", Word: "Manage snapshots", Href: views.TabPath(p.path(), "snapshots")}}},
		p.actionButton(fleet.ActConsole),
		{Icon: "server", Word: "Migrate", Submenu: p.migrationActions()},
		clone, template, exportAction(p.VM).DisableFrom(p.Actions, fleet.ActEdit),
		edit, p.actionButton(fleet.ActProtect),
		{Icon: "columns-3", Word: "Compare…", Href: views.ComparePath(p.VM.ID, "")},
		p.actionButton(fleet.ActRelease),
		p.actionButton(fleet.ActDelete),
	}
}

// migrationActions are the actions that migrate the VM to another host or its disks to other pools.
func (p Page) migrationActions() []kit.ActionButton {
	host := p.migrateAction()
	host.Word = "Change host…"
	out := []kit.ActionButton{host}
	for i, d := range p.VM.Spec.Disks {
		move := p.moveDiskAction(d)
		if move.Word = "Change storage…"; len(p.VM.Spec.Disks) > 1 {
			move.Word = "Change storage of disk " + strconv.Itoa(i+1) + "…"
		}
		out = append(out, move)
	}
	return out
}

func clonePath(id fleet.VMID) string {
	return kit.Link{Path: "/vms/new"}.With("clone", string(id)).String()
}

func (p Page) actionButton(a fleet.Action) kit.ActionButton {
	return actionButton(p.VM, p.actionState(a))
}
