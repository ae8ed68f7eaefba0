package libvirt

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// readDefinedSpec translates a definition into a spec. applied determines the devices that belong to the spec. The
// result omits devices that were added outside Quantix.
func readDefinedSpec(x *libvirtxml.Domain, applied hypervisor.Applied, volumeAt func(string) *fleet.Volref) hypervisor.DefinedSpec {
	out := hypervisor.DefinedSpec{Domain: x.Name, Inexpressible: map[string]string{}, Spec: fleet.VMSpec{
		CPUs: pluggedCPUs(x), MemoryMiB: int(configuredMemoryKiB(x) / 1024), Firmware: firmwareOf(x),
	}}
	if x.Devices == nil {
		x.Devices = &libvirtxml.DomainDeviceList{}
	}
	for _, f := range metadataFields {
		f.Copy(&out.Spec, applied.Spec)
	}
	readDefinitionFields(x, &out.Spec, out.Inexpressible)
	out.Spec = out.Spec.MapMedia(func(m fleet.Medium) fleet.Volref {
		for _, was := range applied.Spec.Media() {
			if appliedVolumePath(applied, was.Volref) == m.Volume {
				return was.Volref
			}
		}
		if v := volumeAt(m.Volume); v != nil {
			return *v
		}
		part, _, _ := strings.Cut(m.Field, "[")
		out.Inexpressible[part] = m.Volume
		return m.Volref
	})
	if applied.Spec.CPU.Model == "" && isDefaultCPUModel(x, out.Spec.CPU.Model) {
		out.Spec.CPU.Model = ""
		delete(out.Inexpressible, "cpu.model")
	}
	if out.Spec.CPU.Max == 0 && applied.Spec.CPU.Max == out.Spec.CPUs {
		out.Spec.CPU.Max = out.Spec.CPUs // hot-plug has reached the maximum
	}
	if out.Spec.Memory.BalloonMiB == 0 && applied.Spec.Memory.BalloonMiB == out.Spec.MemoryMiB {
		out.Spec.Memory.BalloonMiB = out.Spec.MemoryMiB // the balloon has reached the maximum
	}
	out.Spec.Disks = readDefinedDisks(x.Devices.Disks, applied, out.Inexpressible)
	out.Spec.NICs = readDefinedNICs(x.Devices.Interfaces, applied, out.Inexpressible)
	i := slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == cdromAlias })
	if i < 0 {
		return out
	}
	iso := diskPathOf(&x.Devices.Disks[i])
	switch ref := applied.Spec.ISO; {
	case iso == "":
	case ref != nil && appliedVolumePath(applied, *ref) == iso:
		out.Spec.ISO = ref
	default:
		if out.Spec.ISO = volumeAt(iso); out.Spec.ISO == nil {
			out.Inexpressible["iso"] = path.Base(iso)
		}
	}
	return out
}

func readDefinedDisks(disks []libvirtxml.DomainDisk, applied hypervisor.Applied, odd map[string]string) []fleet.Disk {
	var out []fleet.Disk
	var labels []string
	stray := false
	for i := range disks {
		d := &disks[i]
		k := slices.IndexFunc(applied.Spec.Disks, func(a fleet.Disk) bool {
			return locatedDisk{alias: diskAlias(a.Ref()), path: appliedVolumePath(applied, a.Ref())}.matches(d)
		})
		switch {
		case k >= 0:
			out = append(out, readDisk(*d, applied.Spec.Disks[k]))
			labels = append(labels, applied.Spec.Disks[k].Volume)
		case hasAliasPrefix(d.Alias, diskAliasPrefix):
			stray, labels = true, append(labels, path.Base(diskPathOf(d)))
		}
	}
	if stray {
		odd["disks"] = strings.Join(labels, ", ")
	}
	return out
}

func readDefinedNICs(interfaces []libvirtxml.DomainInterface, applied hypervisor.Applied, odd map[string]string) []fleet.NIC {
	var out []fleet.NIC
	var labels []string
	unmanaged := false
	for i := range interfaces {
		n := &interfaces[i]
		mac := nicMACOf(n)
		k := slices.IndexFunc(applied.Spec.NICs, func(a fleet.NIC) bool { return strings.EqualFold(a.MAC, mac) })
		if k < 0 && !hasAliasPrefix(n.Alias, nicAliasPrefix) {
			continue
		}
		nic := fleet.NIC{MAC: mac}
		switch s := n.Source; {
		case s != nil && s.Network != nil:
			nic.Network, nic.PortGroup = s.Network.Network, s.Network.PortGroup
		case s != nil && s.Bridge != nil:
			nic.Bridge = s.Bridge.Bridge
		default:
			unmanaged = true
		}
		label := mac + " on " + nicSourceOf(n)
		switch filter := filterNameOf(n); {
		case isManagedFilter(filter) && k >= 0:
			nic.SecurityGroups, nic.AntiSpoofing = applied.Spec.NICs[k].SecurityGroups, applied.Spec.NICs[k].AntiSpoofing
		case filter != "":
			unmanaged = true
			label += ", with the network filter " + filter
		}
		out, labels = append(out, readNIC(*n, nic)), append(labels, label)
	}
	if unmanaged {
		odd["nics"] = strings.Join(labels, ", ")
	}
	return out
}

// appliedVolumePath returns the volume's path at the time it was applied, or "" if unknown.
func appliedVolumePath(applied hypervisor.Applied, ref fleet.Volref) string {
	p, ok := applied.Pools[ref.PoolID]
	switch {
	case ok && p.Spec != nil && blockMappingOf(*p.Spec) != nil:
		return blockMappingOf(*p.Spec).address(fleet.Pool{ID: ref.PoolID, Name: p.Name, Spec: *p.Spec}, ref.Volume)
	case ok && p.Path != "":
		return filepath.Join(p.Path, ref.Volume)
	}
	return ""
}

// assignedPools records the pools that the portal assigned to this host: file pools by path, block pools by ID.
type assignedPools struct {
	mu         sync.Mutex
	byPath     map[string]fleet.Pool
	blockPools map[fleet.PoolID]fleet.Pool
}

func (a *assignedPools) record(pools []fleet.Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byPath == nil {
		a.byPath, a.blockPools = map[string]fleet.Pool{}, map[fleet.PoolID]fleet.Pool{}
	}
	for _, p := range pools {
		if blockMappingOf(p.Spec) != nil {
			a.blockPools[p.ID] = p
			continue
		}
		a.byPath[filepath.Clean(p.Spec.Path)] = p
	}
}

// poolOfFile returns the file pool whose directory contains the file.
func (a *assignedPools) poolOfFile(file string) (fleet.Pool, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.byPath[filepath.Dir(file)]
	return p, ok
}

// blockAt returns the block pool and the volume of an address.
func (a *assignedPools) blockAt(address string) (p fleet.Pool, volume string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.blockPools {
		if v := blockMappingOf(p.Spec).volumeAt(p, address); v != "" {
			return p, v, true
		}
	}
	return fleet.Pool{}, "", false
}

// volumeAt returns the volume of a file path or block address, or nil if no pool has it.
func (a *assignedPools) volumeAt(file string) *fleet.Volref {
	if p, volume, ok := a.blockAt(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: volume}
	}
	if p, ok := a.poolOfFile(file); ok {
		return &fleet.Volref{PoolID: p.ID, Volume: filepath.Base(file)}
	}
	return nil
}
