package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// VMNUMANode is a NUMA node of the guest: vCPUs with their local memory. The first is node 0.
type VMNUMANode struct {
	CPUs      string `json:"cpus"`            // "0-3,8"
	MemoryMiB int    `json:"memoryMiB"`       // the node's share of the VM's memory
	Nodes     string `json:"nodes,omitempty"` // host NUMA nodes that provide the memory: "0-1"; empty: any
}

// MaxNUMANodes is the maximum number of NUMA nodes of a VM.
const MaxNUMANodes = 64

func (v VMNUMANode) text() string {
	out := fmt.Sprintf("vCPUs %s with %d MiB", v.CPUs, v.MemoryMiB)
	if v.Nodes != "" {
		out += " of node " + v.Nodes
	}
	return out
}

// normalized returns the node with its sets in libvirt's notation.
func (v VMNUMANode) normalized() VMNUMANode {
	v.CPUs, v.Nodes = NormalizeNumberSet(v.CPUs), NormalizeNumberSet(v.Nodes)
	return v
}

func equalNUMANodes(a, b []VMNUMANode) bool {
	return slices.EqualFunc(a, b, func(a, b VMNUMANode) bool { return a.normalized() == b.normalized() })
}

// parseNumberSet returns the numbers of a set such as "0-3,6", sorted; ok is false if the text is not a set.
func parseNumberSet(text string) ([]int, bool) {
	if !cpuSetForm.MatchString(text) {
		return nil, false
	}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		least, _ := strconv.Atoi(from) // the pattern allows at most four digits
		most := least
		if ranged {
			most, _ = strconv.Atoi(to)
		}
		if most < least {
			return nil, false
		}
		for n := least; n <= most; n++ {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, true
}

// NormalizeNumberSet returns a set of numbers in the shortest notation, "0-3,6". Other text is returned unchanged.
func NormalizeNumberSet(text string) string {
	all, ok := parseNumberSet(text)
	if !ok {
		return text
	}
	all = slices.Compact(all)
	var out []string
	for i := 0; i < len(all); {
		k := i
		for k+1 < len(all) && all[k+1] == all[k]+1 {
			k++
		}
		if out = append(out, strconv.Itoa(all[i])); k > i {
			out[len(out)-1] += "-" + strconv.Itoa(all[k])
		}
		i = k + 1
	}
	return strings.Join(out, ",")
}

// MemoryGainPerNode returns how much memory each node has more in want than in was, in MiB. ok is false if the nodes
// also differ in other ways, or if a gain is not a multiple of MemoryStep.
func MemoryGainPerNode(was, want []VMNUMANode) (more []int, ok bool) {
	if len(was) != len(want) {
		return nil, false
	}
	for i, v := range want {
		n := v.MemoryMiB - was[i].MemoryMiB
		before := was[i].normalized()
		if before.MemoryMiB = v.MemoryMiB; before != v.normalized() || n < 0 || n%MemoryStep != 0 {
			return nil, false
		}
		more = append(more, n)
	}
	return more, true
}

// numaField builds the spec's NUMA field. The order matters: the guest identifies nodes by number.
func numaField() VMField {
	words := func(all []VMNUMANode) string {
		if len(all) == 0 {
			return "none"
		}
		out := make([]string, len(all))
		for i, v := range all {
			out[i] = v.text()
		}
		return strings.Join(out, ", ")
	}
	f := valueFieldWithEqual("numa", "NUMA nodes", WhenNextBoot, func(s *VMSpec) *[]VMNUMANode { return &s.NUMA },
		valueType[[]VMNUMANode]{words: words, equal: equalNUMANodes})
	f.Value = func(s VMSpec) any { return append([]VMNUMANode{}, s.NUMA...) } // JSON needs [] for an empty list, not null
	f.Copy = func(to *VMSpec, from VMSpec) { to.NUMA = slices.Clone(from.NUMA) }
	f.Default = func(s VMSpec) bool { return len(s.NUMA) == 0 }
	f.check = func(c *Checks, field string, s VMSpec) { s.checkNUMANodes(c, field) }
	f.ReservedPaths = func(was, want VMSpec) (at []string) {
		for i, v := range want.NUMA {
			if v.Nodes != "" && (i >= len(was.NUMA) || NormalizeNumberSet(was.NUMA[i].Nodes) != NormalizeNumberSet(v.Nodes)) {
				at = append(at, fmt.Sprintf("numa[%d].nodes", i))
			}
		}
		return at
	}
	const others = "other VMs may need the memory of these nodes"
	f.Input = FormInput{
		Section: SectionCPU, Kind: InputRows, Label: "NUMA nodes", Help: "Together the nodes contain all vCPUs, including those for hot-plug, and all memory. The first is node 0.",
		Rows: []InputRow{
			{"cpus", FormInput{Kind: InputText, Label: "vCPUs", Example: "0-3"}},
			{"memoryMiB", FormInput{Label: "Memory", Unit: "MiB", Example: "MiB"}},
			{"nodes", FormInput{Kind: InputText, Label: "Host nodes", Example: "any", Reserved: others}},
		},
	}
	return withHotPlug(VM.canHotPlugNUMANodes, vmField(markOperatorOnly(others, f)))
}

// canHotPlugNUMANodes reports whether the nodes' memory can change while the guest runs: all nodes must grow, or all
// must shrink.
func (vm VM) canHotPlugNUMANodes(to VMSpec) bool {
	return len(vm.Spec.NUMA) > 0 && len(to.NUMA) > 0 && vm.canHotPlugMemory(to)
}

// checkNUMANodes adds an error for each invalid NUMA node; field is the path of the list.
func (s VMSpec) checkNUMANodes(c *Checks, field string) {
	switch n := len(s.NUMA); {
	case n == 0:
		return
	case n == 1:
		c.Add(field, "Define two or more NUMA nodes, or none.")
		return
	case n > MaxNUMANodes:
		c.Add(field, "A VM has at most %s.", CountWithUnit(MaxNUMANodes, "NUMA node"))
		return
	}
	most, memory, complete := max(s.CPUs, s.CPU.Max), 0, true
	in := map[int]int{}
	for i, v := range s.NUMA {
		at := fmt.Sprintf("%s[%d]", field, i)
		all, ok := parseNumberSet(v.CPUs)
		if !ok {
			c.Add(at+".cpus", "Enter vCPU numbers and ranges, such as 0-3,6.")
		}
		for _, n := range all {
			before, twice := in[n]
			switch {
			case n >= most:
				c.Add(at+".cpus", "The VM has no vCPU %d: its vCPUs are numbered from 0 to %d.", n, most-1)
			case twice && before == i:
				c.Add(at+".cpus", "vCPU %d is listed twice.", n)
			case twice:
				c.Add(at+".cpus", "vCPU %d is already in node %d.", n, before)
			default:
				in[n] = i
				continue
			}
			ok = false
			break // one error per node is enough
		}
		if v.Nodes != "" {
			if _, ok := parseNumberSet(v.Nodes); !ok {
				c.Add(at+".nodes", "Enter numbers and ranges, such as 0-1.")
			}
		}
		switch page := s.Memory.HugePageKiB; {
		case v.MemoryMiB < 1 || v.MemoryMiB > MaxMemoryMiB:
			c.Add(at+".memoryMiB", "A node needs at least 1 MiB of the VM's memory.")
			complete = false
		case page > 0 && v.MemoryMiB<<10%page != 0:
			c.Add(at+".memoryMiB", "A node's memory must be a multiple of the huge page size of %d KiB.", page)
		}
		memory += v.MemoryMiB
		complete = complete && ok
	}
	if s.Memory.Nodes != "" && slices.ContainsFunc(s.NUMA, func(v VMNUMANode) bool { return v.Nodes != "" }) {
		c.Add(strings.TrimSuffix(field, "numa")+"memory.nodes", "The VM's NUMA nodes already select host nodes. Remove this value, or the host nodes of the NUMA nodes.")
	}
	if !complete {
		return // further errors would only repeat the errors above
	}
	for n := range min(most, MaxCPUs) {
		if _, ok := in[n]; !ok {
			c.Add(field, "vCPU %d is in no node. Every vCPU from 0 to %d must be in one.", n, most-1)
			break
		}
	}
	if memory != s.MemoryMiB {
		c.Add(field, "The nodes have %d MiB, and the VM has %d MiB. Both must be equal.", memory, s.MemoryMiB)
	}
}
