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
	if f, ok := fleet.FieldOf(name); ok {
		return f.Type
	}
	return name
}

// faultID is the element id of an action button at the i-th fault.
func faultID(i int, word string) string { return "fault-" + strconv.Itoa(i) + "-" + word[:3] }

// warning is the warning that the phase does not show: a fault of the VM, or a failed last job; empty: none.
func warning(vm *fleet.VMView) (word, text string) {
	if len(vm.Status.Faults) > 0 {
		f := vm.Status.Faults[0]
		return f.Word(), f.Text
	}
	if !vm.LastTaskFailed() {
		return "", ""
	}
	return vm.Status.Failure(), vm.Status.Error
}

// remedies are the actions that resolve a fault.
func (p Page) remedies(f fleet.Fault) []kit.Act {
	if f.Code == fleet.FaultExpiry {
		return []kit.Act{kit.Act{Icon: "shield", Word: "Extend…", Href: p.path("guard"), Dialog: true}.When(p.action(fleet.ActProtect).Reason)}
	}
	if f.Code == fleet.FaultUndefined {
		return []kit.Act{p.reapply()}
	}
	if f.Code != fleet.FaultDisk || f.Disk == nil || !slices.ContainsFunc(p.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == *f.Disk }) {
		return nil
	}
	at := func(act string) string {
		return kit.Link{Path: p.path("disks", act), Query: url.Values{"disk": {Volume(f.Disk.PoolID, f.Disk.Volume)}}}.String()
	}
	why := p.action(fleet.ActEdit).Reason
	return []kit.Act{
		kit.Act{Icon: "unplug", Word: "Detach disk…", Href: at("detach"), Dialog: true}.When(why),
		kit.Act{Icon: "plus", Word: "New disk…", Href: at("replace"), Dialog: true}.When(why),
	}
}
