package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// Unreserved is the fault that the host has not enough processors left that are kept for no VM; nil: it has. Unlike memory, what is reserved is
// promised twice by nobody.
func Unreserved(spec fleet.VMSpec, h Host) *Fault {
	want, left := spec.ReservedCPU(), 100*int64(h.Processors)-h.ReservedCPU
	if want == 0 || want <= left {
		return nil
	}
	message := fmt.Sprintf("%s has %s left to reserve of %s, and the VM wants %s.", h.Name, amount(max(left, 0)), processors(100*int64(h.Processors)), amount(want))
	return &Fault{"spec.cpu.reserved", message, "not enough processors to reserve", false}
}

// amount is so many percent of a processor as a number of them: "1.5".
func amount(percent int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", percent/100, percent%100), "0"), ".")
}

func processors(percent int64) string {
	text := amount(percent)
	if text == "1" {
		return "1 processor"
	}
	return text + " processors"
}

// Unpromised is the fault that the host has not enough memory left that no VM is promised; nil: it has.
func Unpromised(spec fleet.VMSpec, h Host) *Fault {
	if free := h.free(); int64(spec.MemoryMiB) > free {
		return &Fault{"spec.memoryMiB", fmt.Sprintf("%d MiB of memory left, %d wanted", max(free, 0), spec.MemoryMiB), noMemory, false}
	}
	return nil
}

const noMemory = "not enough memory"

// free is the memory that VMs may still be promised: all but what the host keeps for itself (10 %, at most 1 GiB).
func (h Host) free() int64 { return h.MemoryMiB - min(h.MemoryMiB/10, 1024) - h.CommittedMiB }
