package domxml

import (
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// MemoryModuleAliasPrefix is the alias prefix of memory modules that Quantix hot-plugged. Quantix unplugs only modules
// with this prefix.
const MemoryModuleAliasPrefix = "ua-quantix-dimm-"

// memoryModuleOf returns the memory module of a device, or false if the device is not a DIMM with a size.
func memoryModuleOf(m libvirtxml.DomainMemorydev) (fleet.Module, bool) {
	if m.Model != "dimm" || m.Target == nil || m.Target.Size == nil {
		return fleet.Module{}, false
	}
	out := fleet.Module{MiB: int(ToKiB(m.Target.Size.Value, m.Target.Size.Unit) / 1024)}
	if m.Target.Node != nil {
		out.NUMANode = int(m.Target.Node.Value)
	}
	return out, true
}

// MemoryModulesOf returns the modules that Quantix hot-plugged and their aliases. others is the memory of all other modules
// in MiB, by NUMA node.
func MemoryModulesOf(x *libvirtxml.Domain) (all []fleet.Module, aliases []string, others map[int]int) {
	others = map[int]int{}
	for _, d := range x.Devices.Memorydevs {
		switch m, ok := memoryModuleOf(d); {
		case ok && HasAliasPrefix(d.Alias, MemoryModuleAliasPrefix):
			all, aliases = append(all, m), append(aliases, AliasOf(d.Alias))
		case ok:
			others[m.NUMANode] += m.MiB
		}
	}
	return all, aliases, others
}

// MinHotUnplugCPUs returns the minimum vCPUs of a running guest, because vCPUs present at the guest's start cannot be
// unplugged. It returns 0 if no vCPU can be unplugged, as without KVM: an emulated guest fails when it loses a vCPU.
func MinHotUnplugCPUs(x *libvirtxml.Domain) int {
	if x.Type != "kvm" || x.VCPUs == nil {
		return 0
	}
	stay, leave := 0, 0
	for _, v := range x.VCPUs.VCPU {
		switch {
		case v.Enabled != "yes":
		case v.Hotpluggable == "yes":
			leave++
		default:
			stay++
		}
	}
	if leave == 0 {
		return 0
	}
	return max(stay, 1)
}
