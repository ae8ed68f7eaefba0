package libvirt

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// maxHotPlugCPUs returns the domain's maximum number of vCPUs, or 0 if the domain already has that number.
func maxHotPlugCPUs(x *libvirtxml.Domain) int {
	if x.VCPU == nil || pluggedCPUs(x) >= int(x.VCPU.Value) {
		return 0
	}
	return int(x.VCPU.Value)
}

// supportsCPUHotPlug reports whether a running guest supports vCPU hot-plug. With secure boot the firmware adds a vCPU
// in system management mode. Without KVM the emulated processor never leaves that mode, and the guest hangs.
func supportsCPUHotPlug(accelerator string, secureBoot bool) bool {
	return accelerator == "kvm" || !secureBoot
}

// maxHotPlugMemory returns the domain's maximum memory with hot-plug in MiB, or 0 if the domain has no maximum.
func maxHotPlugMemory(x *libvirtxml.Domain) int {
	if x.MaximumMemory == nil {
		return 0
	}
	return int(toKiB(x.MaximumMemory.Value, x.MaximumMemory.Unit) / 1024)
}

// cdromIndex returns the index of Quantix's CD-ROM drive among the disks, or -1.
func cdromIndex(x *libvirtxml.Domain) int {
	return slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == cdromAlias })
}

func writeMaxMemory(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.MaximumMemory = nil; s.Memory.MaxMiB > 0 {
		x.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: uint(s.Memory.MaxMiB) * 1024, Unit: "KiB", Slots: fleet.MaxModules}
	}
	matchSingleNUMANode(x)
}

// matchSingleNUMANode adds the single NUMA node that memory hot-plug requires, and removes it if the guest has no
// maximum memory.
func matchSingleNUMANode(x *libvirtxml.Domain) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	switch nodes := x.CPU.Numa; {
	case x.MaximumMemory == nil && nodes != nil && len(nodes.Cell) == 1:
		x.CPU.Numa = nil
	case x.MaximumMemory != nil && nodes == nil:
		// resizeSingleNUMANode sets the size of the node
		x.CPU.Numa = &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{{ID: new(uint), CPUs: "0"}}}
	}
}

// resizeSingleNUMANode gives all vCPUs and memory to a guest's only NUMA node. Several nodes stay unchanged;
// writeNUMANodes configures those.
func resizeSingleNUMANode(x *libvirtxml.Domain) {
	if x.CPU == nil || x.CPU.Numa == nil || len(x.CPU.Numa.Cell) != 1 || x.Memory == nil || x.VCPU == nil {
		return
	}
	c := &x.CPU.Numa.Cell[0]
	if kib := configuredMemoryKiB(x); toKiB(c.Memory, c.Unit) != kib {
		c.Memory, c.Unit = uint(kib), "KiB"
	}
	if all := fmt.Sprintf("0-%d", x.VCPU.Value-1); x.VCPU.Value > 1 && c.CPUs != all {
		c.CPUs = all
	} else if x.VCPU.Value == 1 {
		c.CPUs = "0"
	}
}
