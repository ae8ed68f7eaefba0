package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// memoryToUnplug returns the modules to unplug, so that the guest has the memory of its next start. It returns none if
// no set of modules has exactly the surplus.
func memoryToUnplug(kept, live *libvirtxml.Domain, spec fleet.VMSpec) (out []pluggableDevice) {
	if domxml.ConfiguredMemoryMiB(kept) != spec.MemoryMiB {
		return nil // the memory was changed outside Quantix
	}
	all, aliases, others := domxml.MemoryModulesOf(live)
	less := []int{domxml.ConfiguredMemoryMiB(live) - spec.MemoryMiB}
	if domxml.MultipleNUMANodes(live) != nil || domxml.MultipleNUMANodes(kept) != nil {
		var now, next fleet.VMSpec
		domxml.ReadNUMANodes(live, &now)
		domxml.ReadNUMANodes(kept, &next)
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
		out = append(out, pluggableDevice{field: "memoryMiB", label: fmt.Sprintf("%d MiB of memory", all[i].MiB), alias: aliases[i]})
	}
	return out
}

// hotPlugMemory hot-plugs the missing memory of each NUMA node. Without a free slot the memory waits for the next
// start.
func (a *applyRun) hotPlugMemory(ctx context.Context, ref golibvirt.Domain, kept, live *libvirtxml.Domain) error {
	want, has := domxml.ConfiguredMemoryKiB(kept), domxml.ConfiguredMemoryKiB(live)
	if want <= has || int(want/1024) > domxml.MaxHotPlugMemory(live) || (want-has)%(fleet.MemoryStep*1024) != 0 {
		return nil
	}
	more := []int{int((want - has) / 1024)}
	if domxml.MultipleNUMANodes(live) != nil || domxml.MultipleNUMANodes(kept) != nil {
		var now, next fleet.VMSpec
		domxml.ReadNUMANodes(live, &now)
		domxml.ReadNUMANodes(kept, &next)
		var ok bool
		if more, ok = fleet.MemoryGainPerNode(now.NUMA, next.NUMA); !ok {
			return nil
		}
	}
	number := 0
	for _, m := range live.Devices.Memorydevs {
		var n int
		if _, err := fmt.Sscanf(domxml.AliasOf(m.Alias), domxml.MemoryModuleAliasPrefix+"%d", &n); err == nil {
			number = max(number, n)
		}
	}
	for node, mib := range more {
		if mib == 0 {
			continue
		}
		number++
		dimm := libvirtxml.DomainMemorydev{Model: "dimm", Alias: &libvirtxml.DomainAlias{Name: fmt.Sprint(domxml.MemoryModuleAliasPrefix, number)}, Target: &libvirtxml.DomainMemorydevTarget{
			Size: &libvirtxml.DomainMemorydevTargetSize{Value: uint(mib) * 1024, Unit: "KiB"}, Node: &libvirtxml.DomainMemorydevTargetNode{Value: uint(node)},
		}}
		text, err := dimm.Marshal()
		if err != nil {
			return err
		}
		err = a.attachXML(ctx, ref, text)
		if err != nil && conn.IsLibvirtError(err) && strings.Contains(err.Error(), "no free memory device slot") {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cpusToUnplug returns the vCPUs to unplug, so that the guest has the number of its next start, or none if impossible.
func cpusToUnplug(kept, live *libvirtxml.Domain, spec fleet.VMSpec) []pluggableDevice {
	want, has := domxml.PluggedCPUs(kept), domxml.PluggedCPUs(live)
	if want != spec.CPUs || want >= has || want < cmp.Or(domxml.MinHotUnplugCPUs(live), has) {
		return nil
	}
	label := fmt.Sprintf("%d vCPUs", has-want)
	if has-want == 1 {
		label = "1 vCPU"
	}
	return []pluggableDevice{{field: "cpus", label: label, unplug: func(l *golibvirt.Libvirt, ref golibvirt.Domain) error {
		return l.DomainSetVcpusFlags(ref, uint32(want), uint32(golibvirt.DomainVCPULive))
	}}}
}
