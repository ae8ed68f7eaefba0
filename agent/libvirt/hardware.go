package libvirt

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// domainHardware is the content of a running or persistent definition that the agent reports and compares.
type domainHardware struct {
	cpus        int
	memoryMiB   int
	max         struct{ cpus, memoryMiB int } // limits of hot-plug; 0: none
	minCPUs     int                           // minimum vCPUs with hot-unplug; 0: no vCPU can be unplugged
	modules     []fleet.Module                // memory modules that Quantix hot-plugged
	firmware    fleet.Firmware
	disks       []diskDrive   // by target
	nics        []nicHardware // in the definition's order
	iso         string        // path of the first CD-ROM's medium
	allFiles    []string
	diskFiles   []diskFile
	fieldValues fleet.VMSpec // only the fields in the list parts
	seed        string       // path of the first-boot seed
}

type diskDrive struct {
	target, path string
	alias        string // set for disks of the spec
	otherFields  string // the disk's other fields as XML
}

// isSameDevice compares all fields but the alias, because a migrated disk has its old alias until the guest's next
// start.
func (d diskDrive) isSameDevice(o diskDrive) bool {
	return d.target == o.target && d.path == o.path && d.otherFields == o.otherFields
}

type nicHardware struct{ mac, source, filter, fields, limits string }

// isSameDevice compares all fields. It ignores the limits if the persistent definition has none, because a running NIC
// then has the limits of its port group.
func (c nicHardware) isSameDevice(kept nicHardware) bool {
	return c.mac == kept.mac && c.source == kept.source && c.filter == kept.filter && c.fields == kept.fields && (kept.limits == "" || c.limits == kept.limits)
}

func nicFrom(n *libvirtxml.DomainInterface) nicHardware {
	is := readNIC(*n, fleet.NIC{})
	limits := fleet.NIC{Limits: is.Limits}
	is.Limits = fleet.NICLimits{}
	return nicHardware{nicMACOf(n), nicSourceOf(n), filterNameOf(n), fleet.CanonicalFields(fleet.NICFields, is), fleet.CanonicalFields(fleet.NICFields, limits)}
}

func readHardware(x *libvirtxml.Domain) domainHardware {
	h := domainHardware{cpus: pluggedCPUs(x), memoryMiB: int(configuredMemoryKiB(x) / 1024), firmware: firmwareOf(x)}
	h.max.cpus, h.max.memoryMiB = maxHotPlugCPUs(x), maxHotPlugMemory(x)
	if x.Devices == nil {
		return h
	}
	readDefinitionFields(x, &h.fieldValues, nil)
	h.minCPUs = minHotUnplugCPUs(x)
	h.modules, _, _ = modulesOf(x)
	h.seed = seedPathOf(x)
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		path := diskPathOf(d)
		if path != "" {
			h.allFiles = append(h.allFiles, path)
		}
		h.diskFiles = append(h.diskFiles, diskFilesOf(d)...)
		switch {
		// the spec does not list these drives as disks
		case aliasOf(d.Alias) == firstBootAlias, hasAliasPrefix(d.Alias, driveAliasPrefix), physicalDiskName(d) != "":
		case d.Device == "cdrom" && h.iso == "":
			h.iso = path
		case d.Device == "disk" || d.Device == "" || d.Device == "lun":
			one := diskDrive{target: diskTargetOf(d), path: path, otherFields: fleet.CanonicalFields(fleet.DiskFields, readDisk(*d, fleet.Disk{}))}
			if hasAliasPrefix(d.Alias, diskAliasPrefix) {
				one.alias = aliasOf(d.Alias)
			}
			h.disks = append(h.disks, one)
		}
	}
	slices.SortFunc(h.disks, func(a, b diskDrive) int {
		return cmp.Or(cmp.Compare(len(a.target), len(b.target)), cmp.Compare(a.target, b.target))
	})
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		h.nics = append(h.nics, nicFrom(n))
	}
	return h
}

// pendingFields lists the spec fields that differ between the persistent definition and the running guest.
func pendingFields(live, kept domainHardware) []string {
	var out []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"cpus", live.cpus == kept.cpus},
		{"memoryMiB", live.memoryMiB == kept.memoryMiB},
		{"firmware", live.firmware == kept.firmware},
		{"disks", slices.EqualFunc(live.disks, kept.disks, diskDrive.isSameDevice)},
		{"nics", slices.EqualFunc(live.nics, kept.nics, nicHardware.isSameDevice)},
		{"iso", live.iso == kept.iso},
	} {
		if !f.same {
			out = append(out, f.name)
		}
	}
	for _, f := range definitionFields { // a change of any part affects the guest
		same := f.SameValue(&live.fieldValues, &kept.fieldValues)
		switch f.Name {
		case "memory.balloonMiB": // the balloon of a running guest changes without a job
			same = true
		case "cpu.shares":
			same = isSameCPUShares(live.fieldValues, kept.fieldValues, defaultShares())
		case "cpu.max": // a definition with all vCPUs plugged states no maximum
			same = live.max.cpus == kept.max.cpus || max(live.cpus, live.max.cpus) == max(kept.cpus, kept.max.cpus)
		}
		if !same {
			out = append(out, f.Name)
		}
	}
	return out
}

// definitionFields are the spec's fields that the list parts covers.
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

// pluggedCPUs returns the number of plugged vCPUs.
func pluggedCPUs(x *libvirtxml.Domain) int {
	switch {
	case x.VCPU == nil:
		return 1
	case x.VCPU.Current != 0:
		return int(x.VCPU.Current)
	}
	return int(x.VCPU.Value)
}

// configuredMemoryKiB returns the guest's configured memory in KiB. It ignores the balloon, which changes without a
// job.
func configuredMemoryKiB(x *libvirtxml.Domain) uint64 {
	if x.Memory == nil {
		return 0
	}
	return toKiB(x.Memory.Value, x.Memory.Unit)
}

// toKiB converts n in a unit of libvirt to KiB. The default unit is KiB.
func toKiB(n uint, unit string) uint64 {
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

func diskTargetOf(d *libvirtxml.DomainDisk) string {
	if d.Target == nil {
		return ""
	}
	return d.Target.Dev
}

// diskPathOf returns the file or device of a disk, "rbd:pool/image" for network storage, or "" without a medium.
func diskPathOf(d *libvirtxml.DomainDisk) string { return sourcePath(d.Source) }

func sourcePath(s *libvirtxml.DomainDiskSource) string {
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
		return volumeRefPath(s.Volume.Pool, s.Volume.Volume)
	case s.Dir != nil:
		return s.Dir.Dir
	}
	return ""
}

func nicMACOf(n *libvirtxml.DomainInterface) string {
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

// vncEndpoint is the address of a guest's VNC server for net.Dial. The address is "" if there is none.
type vncEndpoint struct{ network, address string }

func vncEndpointOf(x *libvirtxml.Domain) vncEndpoint {
	if x.Devices == nil {
		return vncEndpoint{}
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
			return vncEndpoint{"unix", socket}
		case g.VNC.Port > 0:
			return vncEndpoint{"tcp", net.JoinHostPort(vncDialHost(g.VNC), strconv.Itoa(g.VNC.Port))}
		}
	}
	return vncEndpoint{}
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

// hasConnectedAgent reports whether the guest agent is connected, according to a live definition.
func hasConnectedAgent(x *libvirtxml.Domain) bool {
	return x.Devices != nil && (agentCIDOf(x) != 0 || slices.ContainsFunc(x.Devices.Channels, func(c libvirtxml.DomainChannel) bool {
		return isAgentChannel(c) && c.Target.VirtIO.State == "connected"
	}))
}
