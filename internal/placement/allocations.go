package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// ReservedCPUFault returns a fault if the host has too few unreserved processors for the VM, else nil. Unlike memory,
// reserved processors cannot be overcommitted.
func ReservedCPUFault(spec fleet.VMSpec, h Host) *Fault {
	total := 100 * int64(h.Capacity.Threads-h.Capacity.ReservedThreads)
	want, left := spec.ReservedCPU(), total-h.ReservedCPU
	if want == 0 || want <= left {
		return nil
	}
	message := fmt.Sprintf("%s has %s left to reserve of %s, and the VM needs %s.", h.Name, formatProcessorCount(max(left, 0)), formatProcessorsWithUnit(total), formatProcessorCount(want))
	return &Fault{"spec.cpu.reserved", message, "not enough processors to reserve", false}
}

// formatProcessorCount formats percent of a processor as a number of processors: "1.5".
func formatProcessorCount(percent int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", percent/100, percent%100), "0"), ".")
}

func formatProcessorsWithUnit(percent int64) string {
	text := formatProcessorCount(percent)
	if text == "1" {
		return "1 processor"
	}
	return text + " processors"
}

// OvercommitFaults lists the spec's memory and vCPUs that exceed what the host can still allocate. With h.Overcommit
// or h.OvercommitHost it returns nothing.
func OvercommitFaults(spec fleet.VMSpec, h Host) (faults []Fault) {
	if h.Overcommit || h.OvercommitHost {
		return nil
	}
	c := h.Capacity
	if free := h.freeMemoryMiB(); spec.MemoryMiB > 0 && int64(spec.MemoryMiB) > free {
		faults = append(faults, Fault{
			Field: "spec.memoryMiB", Plain: noMemoryText, Overcommittable: true,
			Message: fmt.Sprintf("%s has %s of %s MiB of memory left after %s reserved%s%s; this VM needs %s.", h.Name, fleet.FormatCount(max(free, 0)),
				fleet.FormatCount(c.MemoryMiB), fleet.FormatCount(c.ReservedMemoryMiB), discoveredSuffix(h.DiscoveredMiB, "MiB"), ratioSuffix(c.Overcommit.Memory), fleet.FormatCount(int64(spec.MemoryMiB))),
		})
	}
	if left := c.AllocatableCPUs - h.CommittedCPUs - h.DiscoveredCPUs; c.Threads > 0 && spec.CPUs > 0 && int64(spec.CPUs) > left { // 0: an older agent does not report threads
		faults = append(faults, Fault{
			Field: "spec.cpus", Plain: "not enough processors", Overcommittable: true,
			Message: fmt.Sprintf("%s has %d of %d vCPUs left (%s for each of its %d threads%s%s); this VM needs %d.",
				h.Name, max(left, 0), c.AllocatableCPUs, fleet.FormatRatio(c.Overcommit.CPU), c.Threads-c.ReservedThreads, reservedSuffix(c.ReservedThreads), discoveredSuffix(h.DiscoveredCPUs, "vCPUs"), spec.CPUs),
		})
	}
	return faults
}

const noMemoryText = "not enough memory"

// discoveredSuffix names what running discovered VMs use, which no user allocated.
func discoveredSuffix(n int64, unit string) string {
	if n == 0 {
		return ""
	}
	return ", " + fleet.FormatCount(n) + " " + unit + " used by discovered VMs"
}

func ratioSuffix(ratio float64) string {
	if ratio == 1 {
		return ""
	}
	return ", overcommit ratio " + fleet.FormatRatio(ratio)
}

func reservedSuffix(threads int) string {
	if threads == 0 {
		return ""
	}
	return fmt.Sprintf(", %d reserved", threads)
}

// freeMemoryMiB is the memory available to new VMs in MiB.
func (h Host) freeMemoryMiB() int64 {
	return h.Capacity.AllocatableMemoryMiB - h.CommittedMiB - h.DiscoveredMiB
}
