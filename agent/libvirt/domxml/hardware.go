package domxml

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// Hardware is the content of a running or persistent definition that the agent reports and compares.
type Hardware struct {
	CPUs        int
	MemoryMiB   int
	Max         struct{ CPUs, MemoryMiB int } // limits of hot-plug; 0: none
	MinCPUs     int                           // minimum vCPUs with hot-unplug; 0: no vCPU can be unplugged
	Modules     []fleet.Module                // memory modules that Quantix hot-plugged
	firmware    fleet.Firmware
	Disks       []DiskDrive   // by target
	OtherDisks  []string      // target names of the disks and drives without an alias of Quantix
	NICs        []NICHardware // in the definition's order
	ISO         string        // path of the first CD-ROM's medium
	AllFiles    []string
	DiskFiles   []DiskFile
	FieldValues fleet.VMSpec // only the fields in definitionFieldCodecs
	Seed        string       // path of the first-boot seed
}

// DiskDrive is a disk of a definition.
type DiskDrive struct {
	Target, Path string
	Alias        string // set for disks of the spec
	otherFields  string // the disk's other fields as XML
}

// isSameDevice compares all fields but the alias, because a migrated disk has its old alias until the guest's next
// start.
func (d DiskDrive) isSameDevice(o DiskDrive) bool {
	return d.Target == o.Target && d.Path == o.Path && d.otherFields == o.otherFields
}

// NICHardware is a NIC of a definition.
type NICHardware struct{ MAC, Source, Filter, fields, limits string }

// isSameDevice compares all fields. It ignores the limits if the persistent definition has none, because a running NIC
// then has the limits of its port group.
func (c NICHardware) isSameDevice(kept NICHardware) bool {
	return c.MAC == kept.MAC && c.Source == kept.Source && c.Filter == kept.Filter && c.fields == kept.fields && (kept.limits == "" || c.limits == kept.limits)
}

func nicHardwareOf(n *libvirtxml.DomainInterface) NICHardware {
	is := ReadNIC(*n, fleet.NIC{})
	limits := fleet.NIC{Limits: is.Limits}
	is.Limits = fleet.NICLimits{}
	return NICHardware{NICMACOf(n), nicSourceOf(n), FilterNameOf(n), fleet.CanonicalFields(fleet.NICFields, is), fleet.CanonicalFields(fleet.NICFields, limits)}
}

// ReadHardware returns the content of a definition.
func ReadHardware(x *libvirtxml.Domain) Hardware {
	h := Hardware{CPUs: PluggedCPUs(x), MemoryMiB: ConfiguredMemoryMiB(x), firmware: firmwareOf(x)}
	h.Max.CPUs, h.Max.MemoryMiB = MaxHotPlugCPUs(x), MaxHotPlugMemory(x)
	if x.Devices == nil {
		return h
	}
	readDefinitionFields(x, &h.FieldValues, nil)
	h.MinCPUs = MinHotUnplugCPUs(x)
	h.Modules, _, _ = MemoryModulesOf(x)
	h.Seed = SeedPathOf(x)
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		path := DiskPathOf(d)
		if !HasAliasPrefix(d.Alias, aliasPrefix) {
			h.OtherDisks = append(h.OtherDisks, DiskTargetOf(d))
		}
		if path != "" {
			h.AllFiles = append(h.AllFiles, path)
		}
		h.DiskFiles = append(h.DiskFiles, DiskFilesOf(d)...)
		switch {
		// the spec does not list these drives as disks
		case AliasOf(d.Alias) == FirstBootAlias, HasAliasPrefix(d.Alias, DriveAliasPrefix), PhysicalDiskName(d) != "":
		case d.Device == "cdrom" && h.ISO == "":
			h.ISO = path
		case d.Device == "disk" || d.Device == "" || d.Device == "lun":
			one := DiskDrive{Target: DiskTargetOf(d), Path: path, otherFields: fleet.CanonicalFields(fleet.DiskFields, ReadDisk(*d, fleet.Disk{}))}
			if HasAliasPrefix(d.Alias, DiskAliasPrefix) {
				one.Alias = AliasOf(d.Alias)
			}
			h.Disks = append(h.Disks, one)
		}
	}
	slices.SortFunc(h.Disks, func(a, b DiskDrive) int {
		return cmp.Or(cmp.Compare(len(a.Target), len(b.Target)), cmp.Compare(a.Target, b.Target))
	})
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		h.NICs = append(h.NICs, nicHardwareOf(n))
	}
	return h
}

// PendingFields lists the spec fields that differ between the persistent definition and the running guest.
func PendingFields(live, kept Hardware) []string {
	var out []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"cpus", live.CPUs == kept.CPUs},
		{"memoryMiB", live.MemoryMiB == kept.MemoryMiB},
		{"firmware", live.firmware == kept.firmware},
		{"disks", slices.EqualFunc(live.Disks, kept.Disks, DiskDrive.isSameDevice)},
		{"nics", slices.EqualFunc(live.NICs, kept.NICs, NICHardware.isSameDevice)},
		{"iso", live.ISO == kept.ISO},
	} {
		if !f.same {
			out = append(out, f.name)
		}
	}
	for _, f := range definitionFields { // a change of any part affects the guest
		same := f.SameValue(&live.FieldValues, &kept.FieldValues)
		switch f.Name {
		case "memory.balloonMiB": // the balloon of a running guest changes without a job
			same = true
		case "cpu.shares":
			same = isSameCPUShares(live.FieldValues, kept.FieldValues, DefaultShares())
		case "cpu.max": // a definition with all vCPUs plugged states no maximum
			same = live.Max.CPUs == kept.Max.CPUs || max(live.CPUs, live.Max.CPUs) == max(kept.CPUs, kept.Max.CPUs)
		}
		if !same {
			out = append(out, f.Name)
		}
	}
	return out
}

// definitionFields are the spec's fields that definitionFieldCodecs covers.
var definitionFields = func() (out []fleet.VMField) {
	for _, p := range definitionFieldCodecs {
		f, ok := fleet.FieldByName(p.field)
		if !ok {
			panic("no spec has the field " + p.field)
		}
		out = append(out, f)
	}
	return out
}()

// metadataFields are the spec's fields that a definition has only in Quantix's metadata.
var metadataFields = slices.DeleteFunc(slices.Clone(fleet.OptionalFields()), func(f fleet.Field[fleet.VMSpec]) bool {
	return slices.ContainsFunc(definitionFieldCodecs, func(p definitionField) bool { return p.field == f.Name })
})

// PluggedCPUs returns the number of plugged vCPUs.
func PluggedCPUs(x *libvirtxml.Domain) int {
	switch {
	case x.VCPU == nil:
		return 1
	case x.VCPU.Current != 0:
		return int(x.VCPU.Current)
	}
	return int(x.VCPU.Value)
}

// ConfiguredMemoryKiB returns the guest's configured memory in KiB. It ignores the balloon, which changes without a
// job.
func ConfiguredMemoryKiB(x *libvirtxml.Domain) uint64 {
	if x.Memory == nil {
		return 0
	}
	return ToKiB(x.Memory.Value, x.Memory.Unit)
}

// ConfiguredMemoryMiB returns the guest's configured memory in MiB, rounded up as QEMU does.
func ConfiguredMemoryMiB(x *libvirtxml.Domain) int {
	return int((ConfiguredMemoryKiB(x) + 1023) / 1024)
}

// ToKiB converts n in a unit of libvirt to KiB. The default unit is KiB.
func ToKiB(n uint, unit string) uint64 {
	bytes := map[string]uint64{
		"b": 1, "bytes": 1, "KB": 1000, "MB": 1000 * 1000, "GB": 1000 * 1000 * 1000,
		"M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30, "T": 1 << 40, "TiB": 1 << 40,
	}[unit]
	return uint64(n) * cmp.Or(bytes, 1024) / 1024
}

func firmwareOf(x *libvirtxml.Domain) fleet.Firmware {
	if x.OS != nil && (x.OS.Firmware == "efi" || x.OS.Loader != nil && x.OS.Loader.Type == "pflash") {
		return fleet.UEFI
	}
	return fleet.BIOS
}

// DiskTargetOf returns the disk's target name, such as "vda", or "".
func DiskTargetOf(d *libvirtxml.DomainDisk) string {
	if d.Target == nil {
		return ""
	}
	return d.Target.Dev
}

// DiskPathOf returns the file or device of a disk, "rbd:pool/image" for network storage, or "" without a medium.
func DiskPathOf(d *libvirtxml.DomainDisk) string { return SourcePath(d.Source) }

// SourcePath is DiskPathOf for a disk's source.
func SourcePath(s *libvirtxml.DomainDiskSource) string {
	switch {
	case s == nil:
		return ""
	case s.File != nil:
		return s.File.File
	case s.Block != nil:
		return s.Block.Dev
	case s.Network != nil:
		return s.Network.Protocol + ":" + s.Network.Name
	case s.Volume != nil:
		return VolumeRefPath(s.Volume.Pool, s.Volume.Volume)
	case s.Dir != nil:
		return s.Dir.Dir
	}
	return ""
}

// NICMACOf returns the NIC's MAC address in lower case, or "".
func NICMACOf(n *libvirtxml.DomainInterface) string {
	if n.MAC == nil {
		return ""
	}
	return strings.ToLower(n.MAC.Address)
}

// nicSourceOf describes the network or device of a NIC, such as "network default".
func nicSourceOf(n *libvirtxml.DomainInterface) string {
	switch s := n.Source; {
	case s == nil:
		return ""
	case s.Network != nil && s.Network.PortGroup != "":
		return "network " + s.Network.Network + ", port group " + s.Network.PortGroup
	case s.Network != nil:
		return "network " + s.Network.Network
	case s.Bridge != nil:
		return "bridge " + s.Bridge.Bridge
	case s.Direct != nil:
		return "direct " + s.Direct.Dev
	case s.User != nil:
		return "user"
	case s.Ethernet != nil:
		return "ethernet"
	case s.Hostdev != nil:
		return "host device"
	}
	return "other"
}

// VNCEndpoint is the address of a guest's VNC server for net.Dial. The address is "" if there is none.
type VNCEndpoint struct{ Network, Address string }

// VNCEndpointOf returns the address of the VNC server in a running guest's definition.
func VNCEndpointOf(x *libvirtxml.Domain) VNCEndpoint {
	if x.Devices == nil {
		return VNCEndpoint{}
	}
	for _, g := range x.Devices.Graphics {
		if g.VNC == nil {
			continue
		}
		socket := g.VNC.Socket
		for _, l := range g.VNC.Listeners {
			if l.Socket != nil && socket == "" {
				socket = l.Socket.Socket
			}
		}
		switch {
		case socket != "":
			return VNCEndpoint{"unix", socket}
		case g.VNC.Port > 0:
			return VNCEndpoint{"tcp", net.JoinHostPort(vncDialHost(g.VNC), strconv.Itoa(g.VNC.Port))}
		}
	}
	return VNCEndpoint{}
}

// HasSPICE reports whether the definition has a SPICE display.
func HasSPICE(x *libvirtxml.Domain) bool {
	return x.Devices != nil && slices.ContainsFunc(x.Devices.Graphics, func(g libvirtxml.DomainGraphic) bool { return g.Spice != nil })
}

// vncDialHost returns the address to dial. For a server on all addresses this is the loopback address.
func vncDialHost(v *libvirtxml.DomainGraphicVNC) string {
	host := v.Listen
	for _, l := range v.Listeners {
		if l.Address != nil && host == "" {
			host = l.Address.Address
		}
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// HasConnectedAgent reports whether the guest agent is connected, according to a live definition.
func HasConnectedAgent(x *libvirtxml.Domain) bool {
	return x.Devices != nil && (AgentCIDOf(x) != 0 || slices.ContainsFunc(x.Devices.Channels, func(c libvirtxml.DomainChannel) bool {
		return isAgentChannel(c) && c.Target.VirtIO.State == "connected"
	}))
}
