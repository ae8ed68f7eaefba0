package domxml

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// MaxHotPlugCPUs returns the domain's maximum number of vCPUs, or 0 if the domain already has that number.
func MaxHotPlugCPUs(x *libvirtxml.Domain) int {
	if x.VCPU == nil || PluggedCPUs(x) >= int(x.VCPU.Value) {
		return 0
	}
	return int(x.VCPU.Value)
}

// SupportsCPUHotPlug reports whether a running guest supports vCPU hot-plug. With secure boot the firmware adds a vCPU
// in system management mode. Without KVM the emulated processor never leaves that mode, and the guest hangs.
func SupportsCPUHotPlug(accelerator string, secureBoot bool) bool {
	return accelerator == "kvm" || !secureBoot
}

// MaxHotPlugMemory returns the domain's maximum memory with hot-plug in MiB, or 0 if the domain has no maximum.
func MaxHotPlugMemory(x *libvirtxml.Domain) int {
	if x.MaximumMemory == nil {
		return 0
	}
	return int(ToKiB(x.MaximumMemory.Value, x.MaximumMemory.Unit) / 1024)
}

// CDROMIndex returns the index of Quantix's CD-ROM drive among the disks, or -1.
func CDROMIndex(x *libvirtxml.Domain) int {
	return slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return AliasOf(d.Alias) == cdromAlias })
}

func writeMaxMemory(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.MaximumMemory = nil; s.Memory.MaxMiB > 0 {
		x.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: uint(s.Memory.MaxMiB) * 1024, Unit: "KiB", Slots: fleet.MaxModules}
	}
	updateSingleNUMANode(x)
}

// updateSingleNUMANode adds the single NUMA node that memory hot-plug requires, and removes it if the guest has no
// maximum memory.
func updateSingleNUMANode(x *libvirtxml.Domain) {
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
	if kib := ConfiguredMemoryKiB(x); ToKiB(c.Memory, c.Unit) != kib {
		c.Memory, c.Unit = uint(kib), "KiB"
	}
	if all := fmt.Sprintf("0-%d", x.VCPU.Value-1); x.VCPU.Value > 1 && c.CPUs != all {
		c.CPUs = all
	} else if x.VCPU.Value == 1 {
		c.CPUs = "0"
	}
}

// sparePCIPorts is the number of devices that can be hot-plugged into a q35 guest. Each device needs an empty root
// port.
const sparePCIPorts = 4

// AddPCIPorts adds root ports to a q35 definition: one for each device that needs a port, and spare ports for hot-plug.
func AddPCIPorts(x *libvirtxml.Domain) {
	if !isQ35(x) || x.Devices == nil {
		return
	}
	d := x.Devices
	// the memory balloon, the USB controller and the virtio-serial controller need 3 ports
	missing := sparePCIPorts + len(d.Interfaces) + len(d.RNGs) + len(d.Hostdevs) + len(d.Filesystems) + 3
	for _, disk := range d.Disks {
		// each virtio or NVMe disk has its own controller
		if disk.Target != nil && (disk.Target.Bus == "virtio" || disk.Target.Bus == "nvme") {
			missing++
		}
	}
	root := false
	for _, c := range d.Controllers {
		root = root || c.Model == "pcie-root"
		if c.Model == "pcie-root-port" {
			missing--
		}
	}
	if !root {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Index: new(uint), Model: "pcie-root"})
	}
	for range missing {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
	}
}
