package views

import (
	"strconv"

	"quantix/internal/fleet"
)

// fieldWord is a field of a VM as people read it.
func fieldWord(name string) string {
	if f, ok := fleet.FieldOf(name); ok {
		return f.Noun
	}
	return name
}

// faultID is an id for the button of an act at the i-th fault.
func faultID(i int, word string) string { return "fault-" + strconv.Itoa(i) + "-" + word[:3] }

// trouble is what the phase of a VM does not say: what is wrong with it, or that its last order failed.
func trouble(vm *fleet.VMView) (word, text string) {
	if len(vm.Status.Faults) > 0 {
		f := vm.Status.Faults[0]
		return f.Word(), f.Text
	}
	return vm.Status.Failure(), vm.Status.Error
}
