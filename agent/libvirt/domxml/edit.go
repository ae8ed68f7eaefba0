package domxml

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
	aliasPrefix     = "ua-quantix-" // of all aliases of Quantix
	DiskAliasPrefix = "ua-quantix-disk-"
	NICAliasPrefix  = "ua-quantix-nic-"
	cdromAlias      = "ua-quantix-cdrom"
)

// NVRAMDir is libvirt's directory of UEFI variables. Quantix names each file after the VM's UUID, because the VM's name
// may change.
const NVRAMDir = "/var/lib/libvirt/qemu/nvram"

// EditContent is the content to write into a definition, with paths of this host.
type EditContent struct {
	hypervisor.DefinitionEdit
	Name         string
	Metadata     QuantixMetadata
	Spec         fleet.VMSpec
	LocatedDisks []LocatedDisk // the disks in DefinitionEdit.Disks with their paths on this host
	ISO          string        // path; empty: no medium
	Seed         string        // path of the first-boot seed; empty: none
	Adopted      bool          // the domain was adopted: only the edit's own parts of the definition change
	// TakenTargets are the target names of the running guest's disks without an alias of Quantix. New disks do not get these
	// names: somebody may have attached a disk to the running guest only.
	TakenTargets []string
}

// changesDevices reports whether the edit sets fields of disks and NICs, or of the boot order.
func (in EditContent) changesDevices() bool {
	return len(in.SetDisks) > 0 || len(in.SetNICs) > 0 || in.SetsField("boot.cdrom")
}

// LocatedDisk is a disk of the spec with its alias and its location on this host.
type LocatedDisk struct {
	Spec   fleet.Disk
	Alias  string
	Path   string
	Direct bool // the storage supports direct I/O
	// Source is the definition's source of a block volume; nil for a file.
	Source *libvirtxml.DomainDiskSource
}

// Matches reports whether the definition's disk has the alias or the path of p.
func (p LocatedDisk) Matches(d *libvirtxml.DomainDisk) bool {
	return AliasOf(d.Alias) == p.Alias || p.Path != "" && DiskPathOf(d) == p.Path
}

// DiskAlias returns the alias of the spec's disk with that volume.
func DiskAlias(ref fleet.Volref) string {
	sum := sha256.Sum256([]byte(string(ref.PoolID) + "/" + ref.Volume))
	return DiskAliasPrefix + hex.EncodeToString(sum[:6])
}

// Edit applies the edit to the definition, and preserves everything that an administrator added or changed.
func Edit(x *libvirtxml.Domain, in EditContent) {
	if x.Devices == nil {
		x.Devices = &libvirtxml.DomainDeviceList{}
	}
	x.Name = in.Name
	x.Metadata = PutQuantixMetadata(x.Metadata, in.Metadata)
	if in.SetsField("memoryMiB") {
		editMemory(x, uint(in.Spec.MemoryMiB)*1024)
		if in.Spec.Memory.BalloonMiB != 0 {
			writeBalloonSize(x, in.Spec)
		}
	}
	if in.SetsField("cpus") {
		editCPUs(x, uint(in.Spec.CPUs), uint(in.Spec.CPU.Max))
	}
	if in.SetsField("firmware") {
		editFirmware(x, in.Spec.Firmware)
	}
	for _, p := range definitionFieldCodecs {
		if p.write != nil && in.SetsField(p.field) {
			p.write(x, in.Spec)
		}
	}
	editDisks(x.Devices, in)
	if in.SetsField("hostDevices") {
		writePhysicalDisks(x, in.Spec, in.TakenTargets)
	}
	editNICs(x.Devices, in)
	if in.SetsField("iso") {
		editCDROM(x, in.ISO)
	}
	if !in.Adopted || in.SetsField("memoryMiB") || in.SetsField("cpus") {
		resizeSingleNUMANode(x)
	}
	if !in.Adopted || in.changesDevices() {
		updateBootOrder(x)
	}
	if in.SetsField("firstBoot") {
		editFirstBoot(x, in.Spec.FirstBoot.Kind, in.Seed)
	}
}

func editMemory(x *libvirtxml.Domain, kib uint) {
	if ConfiguredMemoryKiB(x) != uint64(kib) {
		x.Memory = &libvirtxml.DomainMemory{Value: kib, Unit: "KiB"}
		x.CurrentMemory = &libvirtxml.DomainCurrentMemory{Value: kib, Unit: "KiB"}
	}
}

// editCPUs sets the vCPU count and preserves the definition's maximum. A definition whose vCPU count equals specMax,
// the maximum of the spec, states no separate maximum.
func editCPUs(x *libvirtxml.Domain, n, specMax uint) {
	maximum := uint(MaxHotPlugCPUs(x))
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
	if x.VCPU != nil && x.VCPU.Value == all && PluggedCPUs(x) == int(n) {
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
		x.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: path.Join(NVRAMDir, x.UUID+PlainVarsSuffix)}
	}
}

func editDisks(devices *libvirtxml.DomainDeviceList, in EditContent) {
	drop := func(d libvirtxml.DomainDisk) bool {
		return in.RemoveUnwantedDisks || slices.ContainsFunc(in.RemoveDisks, func(o fleet.Disk) bool { return DiskAlias(o.Ref()) == AliasOf(d.Alias) })
	}
	devices.Disks = slices.DeleteFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool {
		return HasAliasPrefix(d.Alias, DiskAliasPrefix) && drop(d) && !slices.ContainsFunc(in.LocatedDisks, func(w LocatedDisk) bool { return w.Matches(&d) })
	})
	for _, w := range in.LocatedDisks {
		i := slices.IndexFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool { return w.Matches(&d) })
		if i < 0 {
			devices.Disks = append(devices.Disks, newDiskElement(w))
		} else if set := plannedChange(in.SetDisks, func(d fleet.Disk) bool { return d.Ref() == w.Spec.Ref() }); set != nil {
			devices.Disks[i] = setDisk(devices.Disks[i], set.Device, w.Direct, set.SetsField)
		}
	}
	assignTargetNames(devices, in.TakenTargets)
	addSCSIController(devices)
	if !in.Adopted || in.changesDevices() {
		updateNVMeControllers(devices)
	}
}

func newDiskElement(w LocatedDisk) libvirtxml.DomainDisk {
	format, source := w.Spec.FileFormat(), &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: w.Path}}
	if w.Source != nil {
		format, source = fleet.Raw, w.Source
	}
	return setDisk(libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: format},
		Source: source,
		Alias:  &libvirtxml.DomainAlias{Name: w.Alias},
	}, w.Spec, w.Direct, allFields)
}

func editNICs(devices *libvirtxml.DomainDeviceList, in EditContent) {
	has := func(all []fleet.NIC, mac string) bool {
		return slices.ContainsFunc(all, func(n fleet.NIC) bool { return strings.EqualFold(n.MAC, mac) })
	}
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(n libvirtxml.DomainInterface) bool {
		mac := NICMACOf(&n)
		return HasAliasPrefix(n.Alias, NICAliasPrefix) && !has(in.Spec.NICs, mac) && (in.RemoveUnwantedNICs || has(in.RemoveNICs, mac))
	})
	for _, w := range in.NICs {
		source := &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: w.Network, PortGroup: w.PortGroup}}
		if w.Bridge != "" {
			source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: w.Bridge}}
		}
		i := slices.IndexFunc(devices.Interfaces, func(n libvirtxml.DomainInterface) bool { return strings.EqualFold(w.MAC, NICMACOf(&n)) })
		if i >= 0 {
			n := &devices.Interfaces[i]
			if nicSourceOf(n) != nicSourceOf(&libvirtxml.DomainInterface{Source: source}) {
				n.Source = source
			}
			editFilter(n, in.Metadata.ID, w, in.RemoveUnwantedNICs)
			continue
		}
		devices.Interfaces = append(devices.Interfaces, setNIC(libvirtxml.DomainInterface{
			MAC:    &libvirtxml.DomainInterfaceMAC{Address: strings.ToLower(w.MAC)},
			Source: source,
			Alias:  &libvirtxml.DomainAlias{Name: NICAlias(w)},
		}, w, allFields))
		editFilter(&devices.Interfaces[len(devices.Interfaces)-1], in.Metadata.ID, w, false)
	}
	for i, n := range devices.Interfaces {
		if set := plannedChange(in.SetNICs, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, NICMACOf(&n)) }); set != nil {
			devices.Interfaces[i] = setNIC(n, set.Device, set.SetsField)
		}
	}
}

// editCDROM inserts the medium into the CD-ROM drive, or ejects it if iso is "". It adds the drive if it is missing.
func editCDROM(x *libvirtxml.Domain, iso string) {
	devices := x.Devices
	i := slices.IndexFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool { return AliasOf(d.Alias) == cdromAlias })
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

// AliasOf returns the name of the alias, or "".
func AliasOf(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return a.Name
}

// HasAliasPrefix reports whether the alias starts with the prefix.
func HasAliasPrefix(a *libvirtxml.DomainAlias, prefix string) bool {
	return strings.HasPrefix(AliasOf(a), prefix)
}

// NICAlias returns the alias of the spec's NIC. The alias contains the MAC address, so a new NIC never has the alias of
// another NIC that is pending unplug.
func NICAlias(n fleet.NIC) string {
	return NICAliasPrefix + strings.ToLower(strings.ReplaceAll(n.MAC, ":", ""))
}
