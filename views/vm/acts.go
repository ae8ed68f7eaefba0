package vm

import (
	"cmp"
	"slices"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var actionIcons = map[fleet.Action]string{
	fleet.ActStart: "play", fleet.ActShutdown: "power", fleet.ActStop: "power-off", fleet.ActReboot: "rotate-cw", fleet.ActReset: "zap", fleet.ActRestart: "refresh-cw",
	fleet.ActPause: "pause", fleet.ActResume: "play", fleet.ActConsole: "monitor", fleet.ActEdit: "pencil", fleet.ActGuard: "shield", fleet.ActDelete: "trash-2",
}

// sure is what the browser asks before an action that loses what the guest has not written; empty: nothing.
func sure(a fleet.Action, name string) string {
	if !a.Job().Is().Forces {
		return ""
	}
	return a.Word() + " " + name + "? The guest is not asked: what it has not written is lost."
}

// acts are all actions of a VM, as they are possible: on its page, in lists and in the tree.
func acts(vm fleet.VMView, states []fleet.ActionState) []kit.Act {
	out := make([]kit.Act, len(states))
	for i, s := range states {
		out[i] = actOf(vm, s)
	}
	return out
}

func actOf(vm fleet.VMView, s fleet.ActionState) kit.Act {
	a := kit.Act{Icon: actionIcons[s.Action], Word: s.Action.Word()}
	if !s.Allowed {
		a.Why = cmp.Or(s.Reason, "This is not possible now.")
	}
	switch s.Action {
	case fleet.ActConsole:
		a.Href, a.Apart = views.VMPath(vm.ID, "console"), true
	case fleet.ActEdit:
		a.Href = views.TabPath(views.VMPath(vm.ID), "configure")
	case fleet.ActGuard:
		a.Href, a.Dialog = views.VMPath(vm.ID, "guard"), true
		a.Word += "…"
	case fleet.ActDelete:
		a.Href, a.Dialog, a.Danger = views.VMPath(vm.ID, "delete"), true, true
		if s.Allowed {
			a.Word += "…"
		}
	default:
		a.Post, a.Send, a.Sure = views.VMPath(vm.ID, "actions"), []kit.Sent{{Name: "action", Value: string(s.Action)}}, sure(s.Action, vm.Name)
	}
	return a
}

// withCopies are acts, with what makes something else of the VM before the last, which deletes it.
func withCopies(vm fleet.VMView, states []fleet.ActionState) []kit.Act {
	out := acts(vm, states)
	if len(out) == 0 {
		return out
	}
	may := ""
	for _, s := range states {
		if s.Action == fleet.ActEdit {
			may = s.Reason
		}
	}
	clone := kit.Act{Icon: "copy", Word: "Clone", Href: cloneAt(vm.ID), Apart: true}.When(may).When(kit.WhyNot(vm.AllowsClone()))
	template := kit.Act{Icon: "layers", Word: "Make a template…", Href: views.VMPath(vm.ID, "template"), Dialog: true}.When(may)
	if images, _ := vm.AllowsTemplateOfImages(); !images {
		template = template.When(kit.WhyNot(vm.AllowsTemplate()))
	}
	export := exportAct(vm).When(may)
	return slices.Insert(out, len(out)-1, clone, template, export)
}

func cloneAt(id fleet.VMID) string {
	return kit.Link{Path: "/vms/new"}.With("clone", string(id)).String()
}

func (p Page) act(a fleet.Action) kit.Act { return actOf(p.VM, p.action(a)) }
