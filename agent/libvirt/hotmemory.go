package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// memoryModuleAliasPrefix is the alias prefix of memory modules that Quantix hot-plugged. Quantix unplugs only modules
// with this prefix.
const memoryModuleAliasPrefix = "ua-quantix-dimm-"

// moduleOf returns the memory module of a device, or false if the device is not a DIMM with a size.
func moduleOf(m libvirtxml.DomainMemorydev) (fleet.Module, bool) {
	if m.Model != "dimm" || m.Target == nil || m.Target.Size == nil {
		return fleet.Module{}, false
	}
	out := fleet.Module{MiB: int(toKiB(m.Target.Size.Value, m.Target.Size.Unit) / 1024)}
	if m.Target.Node != nil {
		out.NUMANode = int(m.Target.Node.Value)
	}
	return out, true
}

// modulesOf returns the modules that Quantix hot-plugged and their aliases. others is the memory of all other modules
// in MiB, by NUMA node.
func modulesOf(x *libvirtxml.Domain) (all []fleet.Module, aliases []string, others map[int]int) {
	others = map[int]int{}
	for _, d := range x.Devices.Memorydevs {
		switch m, ok := moduleOf(d); {
		case ok && hasAliasPrefix(d.Alias, memoryModuleAliasPrefix):
			all, aliases = append(all, m), append(aliases, aliasOf(d.Alias))
		case ok:
			others[m.NUMANode] += m.MiB
		}
	}
	return all, aliases, others
}

// memoryToUnplug returns the modules to unplug, so that the guest has the memory of its next start. It returns none if
// no set of modules has exactly the surplus.
func memoryToUnplug(kept, live *libvirtxml.Domain, spec fleet.VMSpec) (out []pluggable) {
	if int(configuredMemoryKiB(kept)/1024) != spec.MemoryMiB {
		return nil // the memory was changed outside Quantix
	}
	all, aliases, others := modulesOf(live)
	less := []int{int(configuredMemoryKiB(live)/1024) - spec.MemoryMiB}
	if multipleNUMANodes(live) != nil || multipleNUMANodes(kept) != nil {
		var now, next fleet.VMSpec
		readNUMANodes(live, &now)
		readNUMANodes(kept, &next)
		nodes, ok := fleet.MemoryGainPerNode(next.NUMA, now.NUMA)
		if !ok {
			return nil
		}
		less = nodes
	}
	for node := range less {
		if less[node] -= others[node]; less[node] < 0 {
			return nil
		}
	}
	which, ok := fleet.ModulesToUnplug(all, less)
	if !ok {
		return nil
	}
	for _, i := range which {
		out = append(out, pluggable{field: "memoryMiB", label: fmt.Sprintf("%d MiB of memory", all[i].MiB), alias: aliases[i]})
	}
	return out
}

// hotPlugMemory hot-plugs the missing memory of each NUMA node. Without a free slot the memory waits for the next
// start.
func (a *applyRun) hotPlugMemory(ctx context.Context, ref golibvirt.Domain, kept, live *libvirtxml.Domain) error {
	want, has := configuredMemoryKiB(kept), configuredMemoryKiB(live)
	if want <= has || int(want/1024) > maxHotPlugMemory(live) || (want-has)%(fleet.MemoryStep*1024) != 0 {
		return nil
	}
	more := []int{int((want - has) / 1024)}
	if multipleNUMANodes(live) != nil || multipleNUMANodes(kept) != nil {
		var now, next fleet.VMSpec
		readNUMANodes(live, &now)
		readNUMANodes(kept, &next)
		var ok bool
		if more, ok = fleet.MemoryGainPerNode(now.NUMA, next.NUMA); !ok {
			return nil
		}
	}
	number := 0
	for _, m := range live.Devices.Memorydevs {
		var n int
		if _, err := fmt.Sscanf(aliasOf(m.Alias), memoryModuleAliasPrefix+"%d", &n); err == nil {
			number = max(number, n)
		}
	}
	for node, mib := range more {
		if mib == 0 {
			continue
		}
		number++
		dimm := libvirtxml.DomainMemorydev{Model: "dimm", Alias: &libvirtxml.DomainAlias{Name: fmt.Sprint(memoryModuleAliasPrefix, number)}, Target: &libvirtxml.DomainMemorydevTarget{
			Size: &libvirtxml.DomainMemorydevTargetSize{Value: uint(mib) * 1024, Unit: "KiB"}, Node: &libvirtxml.DomainMemorydevTargetNode{Value: uint(node)},
		}}
		text, err := dimm.Marshal()
		if err != nil {
			return err
		}
		err = a.attachXML(ctx, ref, text)
		if err != nil && isLibvirtError(err) && strings.Contains(err.Error(), "no free memory device slot") {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// minHotUnplugCPUs returns the minimum vCPUs of a running guest, because vCPUs present at the guest's start cannot be
// unplugged. It returns 0 if no vCPU can be unplugged, as without KVM: an emulated guest fails when it loses a vCPU.
func minHotUnplugCPUs(x *libvirtxml.Domain) int {
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

// cpusToUnplug returns the vCPUs to unplug, so that the guest has the number of its next start, or none if impossible.
func cpusToUnplug(kept, live *libvirtxml.Domain, spec fleet.VMSpec) []pluggable {
	want, has := pluggedCPUs(kept), pluggedCPUs(live)
	if want != spec.CPUs || want >= has || want < cmp.Or(minHotUnplugCPUs(live), has) {
		return nil
	}
	label := fmt.Sprintf("%d vCPUs", has-want)
	if has-want == 1 {
		label = "1 vCPU"
	}
	return []pluggable{{field: "cpus", label: label, unplug: func(l *golibvirt.Libvirt, ref golibvirt.Domain) error {
		return l.DomainSetVcpusFlags(ref, uint32(want), uint32(golibvirt.DomainVCPULive))
	}}}
}
