package domxml

import (
	"path"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// VolumeLookup finds the volumes that the paths of a definition name.
type VolumeLookup struct {
	// AppliedPath returns the volume's path at the time it was applied, or "" if unknown.
	AppliedPath func(applied hypervisor.AppliedRecord, ref fleet.Volref) string
	// VolumeAt returns the volume of a file path or block address, or nil if no pool has it.
	VolumeAt func(file string) *fleet.Volref
}

// ReadDefinedSpec translates a definition into a spec. applied determines the devices that belong to the spec. The
// result omits devices that were added outside Quantix.
func ReadDefinedSpec(x *libvirtxml.Domain, applied hypervisor.AppliedRecord, volumes VolumeLookup) hypervisor.DefinedSpec {
	out := hypervisor.DefinedSpec{Domain: x.Name, Inexpressible: map[string]string{}, Spec: fleet.VMSpec{
		CPUs: PluggedCPUs(x), MemoryMiB: ConfiguredMemoryMiB(x), Firmware: firmwareOf(x),
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
			if volumes.AppliedPath(applied, was.Volref) == m.Volume {
				return was.Volref
			}
		}
		if v := volumes.VolumeAt(m.Volume); v != nil {
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
	out.Spec.Disks = readDefinedDisks(x.Devices.Disks, applied, volumes, out.Inexpressible)
	out.Spec.NICs = readDefinedNICs(x.Devices.Interfaces, applied, out.Inexpressible)
	i := slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return AliasOf(d.Alias) == cdromAlias })
	if i < 0 {
		return out
	}
	iso := DiskPathOf(&x.Devices.Disks[i])
	switch ref := applied.Spec.ISO; {
	case iso == "":
	case ref != nil && volumes.AppliedPath(applied, *ref) == iso:
		out.Spec.ISO = ref
	default:
		if out.Spec.ISO = volumes.VolumeAt(iso); out.Spec.ISO == nil {
			out.Inexpressible["iso"] = path.Base(iso)
		}
	}
	return out
}

func readDefinedDisks(disks []libvirtxml.DomainDisk, applied hypervisor.AppliedRecord, volumes VolumeLookup, odd map[string]string) []fleet.Disk {
	var out []fleet.Disk
	var labels []string
	stray := false
	for i := range disks {
		d := &disks[i]
		k := slices.IndexFunc(applied.Spec.Disks, func(a fleet.Disk) bool {
			return LocatedDisk{Alias: DiskAlias(a.Ref()), Path: volumes.AppliedPath(applied, a.Ref())}.Matches(d)
		})
		switch {
		case k >= 0:
			out = append(out, ReadDisk(*d, applied.Spec.Disks[k]))
			labels = append(labels, applied.Spec.Disks[k].Volume)
		case HasAliasPrefix(d.Alias, DiskAliasPrefix):
			stray, labels = true, append(labels, path.Base(DiskPathOf(d)))
		}
	}
	if stray {
		odd["disks"] = strings.Join(labels, ", ")
	}
	return out
}

func readDefinedNICs(interfaces []libvirtxml.DomainInterface, applied hypervisor.AppliedRecord, odd map[string]string) []fleet.NIC {
	var out []fleet.NIC
	var labels []string
	unmanaged := false
	for i := range interfaces {
		n := &interfaces[i]
		mac := NICMACOf(n)
		k := slices.IndexFunc(applied.Spec.NICs, func(a fleet.NIC) bool { return strings.EqualFold(a.MAC, mac) })
		if k < 0 && !HasAliasPrefix(n.Alias, NICAliasPrefix) {
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
		switch filter := FilterNameOf(n); {
		case IsManagedFilter(filter) && k >= 0:
			nic.SecurityGroups, nic.AntiSpoofing = applied.Spec.NICs[k].SecurityGroups, applied.Spec.NICs[k].AntiSpoofing
		case filter != "":
			unmanaged = true
			label += ", with the network filter " + filter
		}
		out, labels = append(out, ReadNIC(*n, nic)), append(labels, label)
	}
	if unmanaged {
		odd["nics"] = strings.Join(labels, ", ")
	}
	return out
}
