package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// ReservedCPUFault returns a fault if the host has too few unreserved processors for the VM, else nil. Unlike memory,
// reserved processors cannot be overcommitted.
func ReservedCPUFault(spec fleet.VMSpec, h Host) *Fault {
	want, left := spec.ReservedCPU(), 100*int64(h.Processors)-h.ReservedCPU
	if want == 0 || want <= left {
		return nil
	}
	message := fmt.Sprintf("%s has %s left to reserve of %s, and the VM needs %s.", h.Name, formatProcessors(max(left, 0)), formatProcessorNumber(100*int64(h.Processors)), formatProcessors(want))
	return &Fault{"spec.cpu.reserved", message, "not enough processors to reserve", false}
}

// formatProcessors formats percent of a processor as a number of processors: "1.5".
func formatProcessors(percent int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", percent/100, percent%100), "0"), ".")
}

func formatProcessorNumber(percent int64) string {
	text := formatProcessors(percent)
	if text == "1" {
		return "1 processor"
	}
	return text + " processors"
}

// VCPUsPerThread is the largest number of vCPUs for each host thread without overcommit.
const VCPUsPerThread = 4

// OvercommitFaults lists the spec's memory and vCPUs that exceed the host's uncommitted memory and vCPUs. With
// h.Overcommit it returns nothing.
func OvercommitFaults(spec fleet.VMSpec, h Host) (faults []Fault) {
	if h.Overcommit {
		return nil
	}
	if free := h.freeMemoryMiB(); spec.MemoryMiB > 0 && int64(spec.MemoryMiB) > free {
		faults = append(faults, Fault{
			Field: "spec.memoryMiB", Plain: noMemoryText, Overcommittable: true,
			Message: fmt.Sprintf("%s has %d MiB of memory left of %d, and the VM needs %d.", h.Name, max(free, 0), h.MemoryMiB, spec.MemoryMiB),
		})
	}
	most := int64(h.Processors) * VCPUsPerThread // 0: an older agent does not report processors
	if left := most - h.CommittedCPUs; most > 0 && spec.CPUs > 0 && int64(spec.CPUs) > left {
		faults = append(faults, Fault{
			Field: "spec.cpus", Plain: "not enough processors", Overcommittable: true,
			Message: fmt.Sprintf("%s has %d vCPUs left of %d (%d for each of its %d threads), and the VM needs %d.",
				h.Name, max(left, 0), most, VCPUsPerThread, h.Processors, spec.CPUs),
		})
	}
	return faults
}

const noMemoryText = "not enough memory"

// freeMemoryMiB is the memory available to new VMs in MiB. 10 % of the host's memory, at most 1 GiB, stay reserved for
// the host.
func (h Host) freeMemoryMiB() int64 { return h.MemoryMiB - min(h.MemoryMiB/10, 1024) - h.CommittedMiB }
