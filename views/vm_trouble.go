package views

import (
	"strconv"

	"quantix/internal/fleet"
)

// fieldWords are fields of a VM as people read them.
var fieldWords = map[string]string{
	"name": "name", "cpus": "vCPUs", "memoryMiB": "memory", "firmware": "firmware", "disks": "disks", "nics": "networks", "iso": "CD-ROM",
}

func fieldWord(field string) string {
	if word := fieldWords[field]; word != "" {
		return word
	}
	return field
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
