package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// numberRangesText writes sorted numbers as ranges: "0-15, 32-47".
func numberRangesText(numbers []int) string {
	all := slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// numaTolerance is the share of a host's memory, in percent, by which the sum over its NUMA nodes may differ: firmware and
// kernel reserve some memory.
const numaTolerance = 2

// numaGaps explains where the NUMA nodes do not add up to the host's memory and threads.
func numaGaps(inv fleet.Inventory) (texts []string) {
	if len(inv.NUMA) == 0 || inv.MemoryBytes <= 0 {
		return nil
	}
	var memory int64
	nodes := map[int]int{} // number of nodes with the thread
	for _, n := range inv.NUMA {
		memory = fleet.AddBytes(memory, n.MemoryBytes)
		for _, t := range n.Threads {
			nodes[t]++
		}
	}
	switch missing := inv.MemoryBytes - memory; {
	case missing > inv.MemoryBytes/100*numaTolerance:
		texts = append(texts, kit.Bytes(missing)+" of "+kit.Bytes(inv.MemoryBytes)+" belong to no reported NUMA node.")
	case -missing > inv.MemoryBytes/100*numaTolerance:
		texts = append(texts, "The NUMA nodes have "+kit.Bytes(memory)+" in all, more than the host's "+kit.Bytes(inv.MemoryBytes)+".")
	}
	var shared []int
	for t, n := range nodes {
		if n > 1 {
			shared = append(shared, t)
		}
	}
	switch all := inv.CPU.Threads; {
	case len(shared) > 0:
		texts = append(texts, "More than one NUMA node reports the threads "+numberRangesText(shared)+".")
	case len(nodes) > all && all > 0:
		texts = append(texts, fmt.Sprintf("The NUMA nodes have %d threads in all, more than the host's %d.", len(nodes), all))
	case len(nodes) < all:
		texts = append(texts, fmt.Sprintf("%d of %d threads belong to no reported NUMA node.", all-len(nodes), all))
	}
	return texts
}
