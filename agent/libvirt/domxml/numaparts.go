package domxml

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// MultipleNUMANodes returns the guest's NUMA nodes if there are several. It ignores a single node, because libvirt
// needs one for memory hot-plug.
func MultipleNUMANodes(x *libvirtxml.Domain) []libvirtxml.DomainCell {
	if x.CPU == nil || x.CPU.Numa == nil || len(x.CPU.Numa.Cell) < 2 {
		return nil
	}
	return x.CPU.Numa.Cell
}

// numaNodeID returns the NUMA node's ID, which defaults to its index.
func numaNodeID(c libvirtxml.DomainCell, at int) uint {
	if c.ID != nil {
		return *c.ID
	}
	return uint(at)
}

// setNUMATune sets the domain's numatune element, and removes the element if it would be empty.
func setNUMATune(x *libvirtxml.Domain, t *libvirtxml.DomainNUMATune) {
	if x.NUMATune = t; t.Memory == nil && len(t.MemNodes) == 0 {
		x.NUMATune = nil
	}
}

func writeHostNUMANodes(x *libvirtxml.Domain, s fleet.VMSpec) {
	t := CopyOrZero(x.NUMATune)
	if t.Memory = nil; s.Memory.Nodes != "" {
		t.Memory = &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: s.Memory.Nodes}
	}
	setNUMATune(x, t)
}

func readHostNUMANodes(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch t := CopyOrZero(x.NUMATune); {
	case t.Memory == nil:
	case t.Memory.Mode != "strict":
		return "with a NUMA mode other than strict"
	default:
		s.Memory.Nodes = t.Memory.Nodeset
	}
	return ""
}

// writeNUMANodes writes the spec's NUMA nodes. It preserves distances and caches that somebody else set on a remaining
// node.
func writeNUMANodes(x *libvirtxml.Domain, s fleet.VMSpec) {
	t := CopyOrZero(x.NUMATune)
	t.MemNodes = nil
	if len(s.NUMA) == 0 {
		if MultipleNUMANodes(x) != nil {
			x.CPU.Numa = nil
		}
		setNUMATune(x, t)
		updateSingleNUMANode(x)
		return
	}
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	was := MultipleNUMANodes(x)
	x.CPU.Numa = CopyOrZero(x.CPU.Numa)
	x.CPU.Numa.Cell = nil
	for i, v := range s.NUMA {
		id, cell := uint(i), libvirtxml.DomainCell{}
		if i < len(was) && len(was) == len(s.NUMA) {
			cell = was[i]
		}
		cell.ID, cell.CPUs, cell.Memory, cell.Unit = &id, v.CPUs, uint(v.MemoryMiB)*1024, "KiB"
		x.CPU.Numa.Cell = append(x.CPU.Numa.Cell, cell)
		if v.Nodes != "" {
			t.MemNodes = append(t.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: id, Mode: "strict", Nodeset: v.Nodes})
		}
	}
	setNUMATune(x, t)
}

// ReadNUMANodes reads the NUMA nodes into the spec. It counts hot-plugged memory to the memory's NUMA node.
func ReadNUMANodes(x *libvirtxml.Domain, s *fleet.VMSpec) (odd string) {
	t := CopyOrZero(x.NUMATune)
	for i, c := range MultipleNUMANodes(x) {
		id := numaNodeID(c, i)
		v := fleet.VMNUMANode{CPUs: c.CPUs, MemoryMiB: int((ToKiB(c.Memory, c.Unit) + hotPluggedKiB(x, id)) / 1024)}
		for _, n := range t.MemNodes {
			if n.CellID == id && n.Mode != "strict" {
				odd = "with a NUMA mode other than strict"
			} else if n.CellID == id {
				v.Nodes = n.Nodeset
			}
		}
		if c.Distances != nil || len(c.Caches) > 0 {
			odd = fmt.Sprintf("%d with distances or caches", len(MultipleNUMANodes(x)))
		}
		s.NUMA = append(s.NUMA, v)
	}
	return odd
}

// hotPluggedKiB returns the total size, in KiB, of the DIMMs in the NUMA node.
func hotPluggedKiB(x *libvirtxml.Domain, cell uint) (kib uint64) {
	if x.Devices == nil {
		return 0
	}
	for _, m := range x.Devices.Memorydevs {
		if m.Target != nil && m.Target.Size != nil && m.Target.Node != nil && m.Target.Node.Value == cell && m.Model == "dimm" {
			kib += ToKiB(m.Target.Size.Value, m.Target.Size.Unit)
		}
	}
	return kib
}
