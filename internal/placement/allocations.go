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

// VCPUsPerThread is how many vCPUs a host may be promised for each thread of its processors, unless somebody chooses overcommit.
const VCPUsPerThread = 4

// Uncommitted lists what of the spec's memory and vCPUs the host has not left, that is promised to no VM. With h.Overcommit it may be
// promised more than it has.
func Uncommitted(spec fleet.VMSpec, h Host) (faults []Fault) {
	if h.Overcommit {
		return nil
	}
	if free := h.free(); spec.MemoryMiB > 0 && int64(spec.MemoryMiB) > free {
		faults = append(faults, Fault{
			Field: "spec.memoryMiB", Plain: noMemory, Room: true,
			Message: fmt.Sprintf("%s has %d MiB of memory left of %d, and the VM wants %d.", h.Name, max(free, 0), h.MemoryMiB, spec.MemoryMiB),
		})
	}
	most := int64(h.Processors) * VCPUsPerThread // 0: an older agent does not tell
	if left := most - h.CommittedCPUs; most > 0 && spec.CPUs > 0 && int64(spec.CPUs) > left {
		faults = append(faults, Fault{
			Field: "spec.cpus", Plain: "not enough processors", Room: true,
			Message: fmt.Sprintf("%s has %d vCPUs left of %d (%d for each of its %d threads), and the VM wants %d.",
				h.Name, max(left, 0), most, VCPUsPerThread, h.Processors, spec.CPUs),
		})
	}
	return faults
}

const noMemory = "not enough memory"

// free is the memory that VMs may still be promised: all but what the host keeps for itself (10 %, at most 1 GiB).
func (h Host) free() int64 { return h.MemoryMiB - min(h.MemoryMiB/10, 1024) - h.CommittedMiB }
