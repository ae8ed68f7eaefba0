package vm

import (
	"net/url"
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// fieldLabel is the label of a VM field.
func fieldLabel(name string) string {
	if f, ok := fleet.FieldByName(name); ok {
		return f.Type
	}
	return name
}

// faultButtonID is the element id of a button that resolves the fault with index i.
func faultButtonID(i int, word string) string { return "fault-" + strconv.Itoa(i) + "-" + word[:3] }

// faultOrTaskFailure is a warning that the VM's phase does not express: a fault of the VM, or a failed last task.
// Empty: there is none.
func faultOrTaskFailure(vm *fleet.VMView) (word, text string) {
	if len(vm.Status.Faults) > 0 {
		f := vm.Status.Faults[0]
		return f.Heading(), f.Text
	}
	if !vm.LastTaskFailed() {
		return "", ""
	}
	return vm.Status.FailureHeading(), vm.Status.Error
}

// remedyActions are the actions that resolve a fault.
func (p Page) remedyActions(f fleet.Fault) []kit.ActionButton {
	if f.Code == fleet.FaultExpiry {
		return []kit.ActionButton{kit.ActionButton{Icon: "history", Word: "Renew…", Href: p.path("renew"), Dialog: true}.DisableFor(p.actionState(fleet.ActProtect).Reason)}
	}
	if f.Code == fleet.FaultUndefined {
		return []kit.ActionButton{p.reapplyAction()}
	}
	if f.Code != fleet.FaultDisk || f.Disk == nil || !slices.ContainsFunc(p.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == *f.Disk }) {
		return nil
	}
	at := func(act string) string {
		return kit.Link{Path: p.path("disks", act), Query: url.Values{"disk": {VolumeValue(f.Disk.PoolID, f.Disk.Volume)}}}.String()
	}
	why := p.actionState(fleet.ActEdit).Reason
	return []kit.ActionButton{
		kit.ActionButton{Icon: "unplug", Word: "Detach disk…", Href: at("detach"), Dialog: true}.DisableFor(why),
		kit.ActionButton{Icon: "plus", Word: "New disk…", Href: at("replace"), Dialog: true}.DisableFor(why),
	}
}
