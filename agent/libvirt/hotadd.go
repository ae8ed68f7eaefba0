package libvirt

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// moreCPUs is how many vCPUs the domain can get while it runs; 0: no more than it has.
func moreCPUs(x *libvirtxml.Domain) int {
	if x.VCPU == nil || cpusOf(x) >= int(x.VCPU.Value) {
		return 0
	}
	return int(x.VCPU.Value)
}

// takesCPUs reports whether a guest that runs survives it. With secure boot its firmware takes a new vCPU in from system management mode, and an emulated
// processor never comes back from there: the guest would stand still for good.
func takesCPUs(accelerator string, secureBoot bool) bool { return accelerator == "kvm" || !secureBoot }

// moreMemory is how many MiB the domain can get while it runs; 0: no more than it has.
func moreMemory(x *libvirtxml.Domain) int {
	if x.MaximumMemory == nil {
		return 0
	}
	return int(kibOf(x.MaximumMemory.Value, x.MaximumMemory.Unit) / 1024)
}

func cdromOf(x *libvirtxml.Domain) int {
	return slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == aliasCDROM })
}

func writeMaxMemory(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.MaximumMemory = nil; s.Memory.MaxMiB > 0 {
		x.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: uint(s.Memory.MaxMiB) * 1024, Unit: "KiB", Slots: fleet.MaxModules}
	}
	oneNode(x)
}

// oneNode gives the guest the one NUMA cell that room for more memory takes, where it has none, and takes it away where it has no such room.
func oneNode(x *libvirtxml.Domain) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	switch cells := x.CPU.Numa; {
	case x.MaximumMemory == nil && cells != nil && len(cells.Cell) == 1:
		x.CPU.Numa = nil
	case x.MaximumMemory != nil && cells == nil:
		x.CPU.Numa = &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{{ID: new(uint), CPUs: "0"}}} // fitNode fills it
	}
}

// fitNode lets the only NUMA cell of a guest have all its vCPUs and memory. Several are as they were asked for: see writeNUMANodes.
func fitNode(x *libvirtxml.Domain) {
	if x.CPU == nil || x.CPU.Numa == nil || len(x.CPU.Numa.Cell) != 1 || x.Memory == nil || x.VCPU == nil {
		return
	}
	c := &x.CPU.Numa.Cell[0]
	if kib := memoryKiB(x); kibOf(c.Memory, c.Unit) != kib {
		c.Memory, c.Unit = uint(kib), "KiB"
	}
	if all := fmt.Sprintf("0-%d", x.VCPU.Value-1); x.VCPU.Value > 1 && c.CPUs != all {
		c.CPUs = all
	} else if x.VCPU.Value == 1 {
		c.CPUs = "0"
	}
}
