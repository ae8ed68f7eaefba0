package vm

import (
	"net/url"
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// fieldWord is a field of a VM as people read it.
func fieldWord(name string) string {
	if f, ok := fleet.FieldOf(name); ok {
		return f.Type
	}
	return name
}

// faultID is an id for the button of an act at the i-th fault.
func faultID(i int, word string) string { return "fault-" + strconv.Itoa(i) + "-" + word[:3] }

// trouble is what the phase of a VM does not say: what is wrong with it, or that its last order failed; empty: neither.
func trouble(vm *fleet.VMView) (word, text string) {
	if len(vm.Status.Faults) > 0 {
		f := vm.Status.Faults[0]
		return f.Word(), f.Text
	}
	if !vm.OrderFailed() {
		return "", ""
	}
	return vm.Status.Failure(), vm.Status.Error
}

// waysOut are the acts that end a fault.
func (p Page) waysOut(f fleet.Fault) []kit.Act {
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
