package libvirt

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Devices created by Quantix have an alias with one of these prefixes. Quantix does not change other devices. The alias
// of a disk identifies its volume in the spec, because the disk's path changes: a snapshot adds an overlay.
const (
	diskAliasPrefix = "ua-quantix-disk-"
	nicAliasPrefix  = "ua-quantix-nic-"
	cdromAlias      = "ua-quantix-cdrom"
)

// nvramDir is libvirt's directory of UEFI variables. Quantix names each file after the VM's UUID, because the VM's name
// may change.
const nvramDir = "/var/lib/libvirt/qemu/nvram"

// definitionEdit is the content to write into a definition, with paths of this host.
type definitionEdit struct {
	hypervisor.DefinitionEdit
	name     string
	metadata quantixMetadata
	spec     fleet.VMSpec
	disks    []locatedDisk // resolved paths of Edit.Disks
	iso      string        // path; empty: no medium
	seed     string        // path of the first-boot seed; empty: none
}

// locatedDisk is a disk of the spec with its alias and its location on this host.
type locatedDisk struct {
	spec   fleet.Disk
	alias  string
	path   string
	direct bool // the storage supports direct I/O
	// source is the definition's source of a block volume; nil for a file.
	source *libvirtxml.DomainDiskSource
}

// matches reports whether the definition's disk has the alias or the path of p.
func (p locatedDisk) matches(d *libvirtxml.DomainDisk) bool {
	return aliasOf(d.Alias) == p.alias || p.path != "" && diskPathOf(d) == p.path
}

// diskAlias returns the alias of the spec's disk with that volume.
func diskAlias(ref fleet.Volref) string {
	sum := sha256.Sum256([]byte(string(ref.PoolID) + "/" + ref.Volume))
	return diskAliasPrefix + hex.EncodeToString(sum[:6])
}

// edit writes the content of in into the definition x, and preserves everything that an administrator added or changed.
func edit(x *libvirtxml.Domain, in definitionEdit) {
	if x.Devices == nil {
		x.Devices = &libvirtxml.DomainDeviceList{}
	}
	x.Name = in.name
	x.Metadata = putQuantixMetadata(x.Metadata, in.metadata)
	if in.SetsField("memoryMiB") {
		editMemory(x, uint(in.spec.MemoryMiB)*1024)
		if in.spec.Memory.BalloonMiB != 0 {
			writeBalloonSize(x, in.spec)
		}
	}
	if in.SetsField("cpus") {
		editCPUs(x, uint(in.spec.CPUs), uint(in.spec.CPU.Max))
	}
	if in.SetsField("firmware") {
		editFirmware(x, in.spec.Firmware)
	}
	for _, p := range definitionFieldCodecs {
		if p.write != nil && in.SetsField(p.field) {
			p.write(x, in.spec)
		}
	}
	editDisks(x.Devices, in)
	if in.SetsField("hostDevices") {
		writePhysicalDisks(x, in.spec)
	}
	editNICs(x.Devices, in)
	if in.SetsField("iso") {
		editCDROM(x, in.iso)
	}
	resizeSingleNUMANode(x)
	matchBootOrder(x)
	if in.SetsField("firstBoot") {
		editFirstBoot(x, in.spec.FirstBoot.Kind, in.seed)
	}
}

func editMemory(x *libvirtxml.Domain, kib uint) {
	if configuredMemoryKiB(x) != uint64(kib) {
		x.Memory = &libvirtxml.DomainMemory{Value: kib, Unit: "KiB"}
		x.CurrentMemory = &libvirtxml.DomainCurrentMemory{Value: kib, Unit: "KiB"}
	}
}

// editCPUs sets the vCPU count and preserves the definition's maximum. A definition whose vCPU count equals specMax,
// the maximum of the spec, states no separate maximum.
func editCPUs(x *libvirtxml.Domain, n, specMax uint) {
	maximum := uint(maxHotPlugCPUs(x))
	if x.VCPU != nil && x.VCPU.Value == specMax {
		maximum = specMax
	}
	setCPUs(x, n, maximum)
}

func setCPUs(x *libvirtxml.Domain, n, maximum uint) {
	all, current := n, uint(0)
	if maximum > n {
		all, current = maximum, n
	}
	if x.VCPU != nil && x.VCPU.Value == all && pluggedCPUs(x) == int(n) {
		return
	}
	if x.VCPU == nil {
		x.VCPU = &libvirtxml.DomainVCPU{Placement: "static"}
	}
	if x.VCPU.Value != all && x.CPU != nil && x.CPU.Topology != nil {
		x.CPU.Topology = nil // the product of the topology must be the number of vCPUs
	}
	x.VCPU.Value, x.VCPU.Current, x.VCPUs = all, current, nil
}

func editFirmware(x *libvirtxml.Domain, want fleet.Firmware) {
	if x.OS == nil || firmwareOf(x) == want {
		return
	}
	x.OS.Firmware, x.OS.FirmwareInfo, x.OS.Loader, x.OS.NVRam = "", nil, nil, nil
	if want == fleet.UEFI {
		x.OS.Firmware = "efi"
		x.OS.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
			{Enabled: "no", Name: "enrolled-keys"}, {Enabled: "no", Name: "secure-boot"},
		}}
		x.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: path.Join(nvramDir, x.UUID+plainVarsSuffix)}
	}
}

func editDisks(devices *libvirtxml.DomainDeviceList, in definitionEdit) {
	drop := func(d libvirtxml.DomainDisk) bool {
		return in.RemoveUnwantedDevices || slices.ContainsFunc(in.RemoveDisks, func(o fleet.Disk) bool { return diskAlias(o.Ref()) == aliasOf(d.Alias) })
	}
	devices.Disks = slices.DeleteFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool {
		return hasAliasPrefix(d.Alias, diskAliasPrefix) && drop(d) && !slices.ContainsFunc(in.disks, func(w locatedDisk) bool { return w.matches(&d) })
	})
	for _, w := range in.disks {
		i := slices.IndexFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool { return w.matches(&d) })
		if i < 0 {
			devices.Disks = append(devices.Disks, newDiskElement(w))
		} else if set := plannedChange(in.SetDisks, func(d fleet.Disk) bool { return d.Ref() == w.spec.Ref() }); set != nil {
			devices.Disks[i] = setDisk(devices.Disks[i], set.Device, w.direct, set.SetsField)
		}
	}
	assignTargetNames(devices)
	addSCSIController(devices)
	matchNVMeControllers(devices)
}

func newDiskElement(w locatedDisk) libvirtxml.DomainDisk {
	format, source := w.spec.FileFormat(), &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: w.path}}
	if w.source != nil {
		format, source = fleet.Raw, w.source
	}
	return setDisk(libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: format},
		Source: source,
		Alias:  &libvirtxml.DomainAlias{Name: w.alias},
	}, w.spec, w.direct, allFields)
}

func editNICs(devices *libvirtxml.DomainDeviceList, in definitionEdit) {
	has := func(all []fleet.NIC, mac string) bool {
		return slices.ContainsFunc(all, func(n fleet.NIC) bool { return strings.EqualFold(n.MAC, mac) })
	}
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(n libvirtxml.DomainInterface) bool {
		mac := nicMACOf(&n)
		return hasAliasPrefix(n.Alias, nicAliasPrefix) && !has(in.spec.NICs, mac) && (in.RemoveUnwantedDevices || has(in.RemoveNICs, mac))
	})
	for _, w := range in.NICs {
		source := &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: w.Network, PortGroup: w.PortGroup}}
		if w.Bridge != "" {
			source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: w.Bridge}}
		}
		i := slices.IndexFunc(devices.Interfaces, func(n libvirtxml.DomainInterface) bool { return strings.EqualFold(w.MAC, nicMACOf(&n)) })
		if i >= 0 {
			n := &devices.Interfaces[i]
			if nicSourceOf(n) != nicSourceOf(&libvirtxml.DomainInterface{Source: source}) {
				n.Source = source
			}
			editFilter(n, in.metadata.ID, w, in.RemoveUnwantedDevices)
			continue
		}
		devices.Interfaces = append(devices.Interfaces, setNIC(libvirtxml.DomainInterface{
			MAC:    &libvirtxml.DomainInterfaceMAC{Address: strings.ToLower(w.MAC)},
			Source: source,
			Alias:  &libvirtxml.DomainAlias{Name: nicAlias(w)},
		}, w, allFields))
		editFilter(&devices.Interfaces[len(devices.Interfaces)-1], in.metadata.ID, w, false)
	}
	for i, n := range devices.Interfaces {
		if set := plannedChange(in.SetNICs, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, nicMACOf(&n)) }); set != nil {
			devices.Interfaces[i] = setNIC(n, set.Device, set.SetsField)
		}
	}
}

// editCDROM inserts the medium into the CD-ROM drive, or ejects it if iso is "". It adds the drive if it is missing.
func editCDROM(x *libvirtxml.Domain, iso string) {
	devices := x.Devices
	i := slices.IndexFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == cdromAlias })
	if i < 0 && iso == "" {
		return
	}
	if i < 0 {
		devices.Disks = append(devices.Disks, newCDROMOnFreeTarget(x))
		i = len(devices.Disks) - 1
	}
	devices.Disks[i].Source = nil
	if iso != "" {
		devices.Disks[i].Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: iso}}
	}
}

func aliasOf(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return a.Name
}

func hasAliasPrefix(a *libvirtxml.DomainAlias, prefix string) bool {
	return strings.HasPrefix(aliasOf(a), prefix)
}
