package domxml

import (
	"cmp"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// deviceFieldCodec converts one field of the spec S of a disk or NIC to the libvirt element X and back.
type deviceFieldCodec[X, S any] struct {
	field string
	write func(x *X, s S)
	read  func(x *X, s *S)
}

// diskFieldCodecs covers fleet.DiskFields. expandDisk ensures that the element has a driver, a target and limits.
var diskFieldCodecs = []deviceFieldCodec[libvirtxml.DomainDisk, fleet.Disk]{
	{"bus", func(x *libvirtxml.DomainDisk, s fleet.Disk) {
		if bus := cmp.Or(s.Bus, "virtio"); x.Target.Bus != bus {
			*x.Target = libvirtxml.DomainDiskTarget{Bus: bus} // assignTargetNames sets the name
			x.Address = nil
		}
	}, func(x *libvirtxml.DomainDisk, s *fleet.Disk) {
		if s.Bus = x.Target.Bus; s.Bus == "virtio" {
			s.Bus = ""
		}
	}},
	{
		"cache", func(x *libvirtxml.DomainDisk, s fleet.Disk) { x.Driver.Cache = s.Cache },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.Cache = x.Driver.Cache },
	},
	{
		"io", func(x *libvirtxml.DomainDisk, s fleet.Disk) { x.Driver.IO = s.IO },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.IO = x.Driver.IO },
	},
	{
		"discard", func(x *libvirtxml.DomainDisk, s fleet.Disk) { x.Driver.Discard = cmp.Or(s.Discard, "unmap") },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) {
			if s.Discard = cmp.Or(x.Driver.Discard, "ignore"); s.Discard == "unmap" {
				s.Discard = ""
			}
		},
	},
	{
		"bootOrder", func(x *libvirtxml.DomainDisk, s fleet.Disk) { x.Boot = bootElement(s.BootOrder) },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.BootOrder = bootNumberOf(x.Boot) },
	},
	{
		"serial", func(x *libvirtxml.DomainDisk, s fleet.Disk) { x.Serial = s.Serial },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.Serial = x.Serial },
	},
	{"readOnly", func(x *libvirtxml.DomainDisk, s fleet.Disk) {
		if x.ReadOnly = nil; s.ReadOnly {
			x.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
		}
	}, func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.ReadOnly = x.ReadOnly != nil }},
	{"shareable", func(x *libvirtxml.DomainDisk, s fleet.Disk) {
		if x.Shareable = nil; s.Shareable {
			x.Shareable = &libvirtxml.DomainDiskShareable{}
		}
	}, func(x *libvirtxml.DomainDisk, s *fleet.Disk) { s.Shareable = x.Shareable != nil }},
	{"encryption", writeEncryption, readEncryption},
	{"format", func(x *libvirtxml.DomainDisk, s fleet.Disk) {
		if x.Source != nil && x.Source.File != nil { // block devices are always raw
			x.Driver.Type = s.FileFormat()
		}
	}, func(x *libvirtxml.DomainDisk, s *fleet.Disk) {
		if s.Format = ""; x.Driver.Type == fleet.Raw && x.Source != nil && x.Source.File != nil && !s.Existing {
			s.Format = fleet.Raw
		}
	}},
	diskLimitCodec("limits.totalIops", 1, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.TotalIopsSec }, func(d *fleet.Disk) *int { return &d.Limits.TotalIOPS }),
	diskLimitCodec("limits.readIops", 1, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.ReadIopsSec }, func(d *fleet.Disk) *int { return &d.Limits.ReadIOPS }),
	diskLimitCodec("limits.writeIops", 1, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.WriteIopsSec }, func(d *fleet.Disk) *int { return &d.Limits.WriteIOPS }),
	diskLimitCodec("limits.totalKiB", 1024, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.TotalBytesSec }, func(d *fleet.Disk) *int { return &d.Limits.TotalKiB }),
	diskLimitCodec("limits.readKiB", 1024, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.ReadBytesSec }, func(d *fleet.Disk) *int { return &d.Limits.ReadKiB }),
	diskLimitCodec("limits.writeKiB", 1024, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.WriteBytesSec }, func(d *fleet.Disk) *int { return &d.Limits.WriteKiB }),
	diskLimitCodec("limits.burstIops", 1, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.TotalIopsSecMax }, func(d *fleet.Disk) *int { return &d.Limits.BurstIOPS }),
	diskLimitCodec("limits.burstKiB", 1024, func(t *libvirtxml.DomainDiskIOTune) *uint64 { return &t.TotalBytesSecMax }, func(d *fleet.Disk) *int { return &d.Limits.BurstKiB }),
	{"limits.burstSeconds", func(x *libvirtxml.DomainDisk, s fleet.Disk) {
		n := uint64(s.Limits.BurstSeconds)
		x.IOTune.TotalIopsSecMaxLength, x.IOTune.TotalBytesSecMaxLength = 0, 0
		if s.Limits.BurstIOPS > 0 {
			x.IOTune.TotalIopsSecMaxLength = n
		}
		if s.Limits.BurstKiB > 0 {
			x.IOTune.TotalBytesSecMaxLength = n
		}
	}, func(x *libvirtxml.DomainDisk, s *fleet.Disk) {
		// QEMU's default is one second, which libvirt adds to a running guest's definition.
		if s.Limits.BurstSeconds = int(max(x.IOTune.TotalIopsSecMaxLength, x.IOTune.TotalBytesSecMaxLength)); s.Limits.BurstSeconds == 1 {
			s.Limits.BurstSeconds = 0
		}
	}},
}

// diskLimitCodec returns the conversion of one I/O limit. libvirt's value is the spec's value times unit.
func diskLimitCodec(field string, unit uint64, in func(*libvirtxml.DomainDiskIOTune) *uint64, at func(*fleet.Disk) *int) deviceFieldCodec[libvirtxml.DomainDisk, fleet.Disk] {
	return deviceFieldCodec[libvirtxml.DomainDisk, fleet.Disk]{
		field,
		func(x *libvirtxml.DomainDisk, s fleet.Disk) { *in(x.IOTune) = uint64(*at(&s)) * unit },
		func(x *libvirtxml.DomainDisk, s *fleet.Disk) { *at(s) = int(*in(x.IOTune) / unit) },
	}
}

// nicFieldCodecs covers fleet.NICFields. expandNIC ensures that the element has a model, a driver, a link and limits of
// both directions.
var nicFieldCodecs = []deviceFieldCodec[libvirtxml.DomainInterface, fleet.NIC]{
	{"model", func(x *libvirtxml.DomainInterface, s fleet.NIC) {
		if model := cmp.Or(s.Model, "virtio"); x.Model.Type != model {
			x.Model.Type, x.Address = model, nil // the new model may need another kind of address
		}
	}, func(x *libvirtxml.DomainInterface, s *fleet.NIC) {
		if s.Model = x.Model.Type; s.Model == "virtio" {
			s.Model = ""
		}
	}},
	{"queues", func(x *libvirtxml.DomainInterface, s fleet.NIC) {
		if x.Driver.Queues = uint(s.Queues); s.Queues < 2 {
			x.Driver.Queues = 0
		}
	}, func(x *libvirtxml.DomainInterface, s *fleet.NIC) { s.Queues = int(x.Driver.Queues) }},
	{
		"bootOrder", func(x *libvirtxml.DomainInterface, s fleet.NIC) { x.Boot = bootElement(s.BootOrder) },
		func(x *libvirtxml.DomainInterface, s *fleet.NIC) { s.BootOrder = bootNumberOf(x.Boot) },
	},
	{"linkDown", func(x *libvirtxml.DomainInterface, s fleet.NIC) {
		if x.Link.State = ""; s.LinkDown {
			x.Link.State = "down"
		}
	}, func(x *libvirtxml.DomainInterface, s *fleet.NIC) { s.LinkDown = x.Link.State == "down" }},
	nicLimitCodec("limits.inKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Inbound.Average }, func(n *fleet.NIC) *int { return &n.Limits.InKiB }),
	nicLimitCodec("limits.inPeakKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Inbound.Peak }, func(n *fleet.NIC) *int { return &n.Limits.InPeakKiB }),
	nicLimitCodec("limits.inBurstKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Inbound.Burst }, func(n *fleet.NIC) *int { return &n.Limits.InBurstKiB }),
	nicLimitCodec("limits.outKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Outbound.Average }, func(n *fleet.NIC) *int { return &n.Limits.OutKiB }),
	nicLimitCodec("limits.outPeakKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Outbound.Peak }, func(n *fleet.NIC) *int { return &n.Limits.OutPeakKiB }),
	nicLimitCodec("limits.outBurstKiB", func(b *libvirtxml.DomainInterfaceBandwidth) **int { return &b.Outbound.Burst }, func(n *fleet.NIC) *int { return &n.Limits.OutBurstKiB }),
}

// nicLimitCodec returns the conversion of one bandwidth limit, which is in KiB in the spec and in the definition.
func nicLimitCodec(field string, in func(*libvirtxml.DomainInterfaceBandwidth) **int, at func(*fleet.NIC) *int) deviceFieldCodec[libvirtxml.DomainInterface, fleet.NIC] {
	return deviceFieldCodec[libvirtxml.DomainInterface, fleet.NIC]{field, func(x *libvirtxml.DomainInterface, s fleet.NIC) {
		if *in(x.Bandwidth) = nil; *at(&s) != 0 {
			*in(x.Bandwidth) = at(&s)
		}
	}, func(x *libvirtxml.DomainInterface, s *fleet.NIC) {
		if *at(s) = 0; *in(x.Bandwidth) != nil {
			*at(s) = **in(x.Bandwidth)
		}
	}}
}

func bootElement(n int) *libvirtxml.DomainDeviceBoot {
	if n == 0 {
		return nil
	}
	return &libvirtxml.DomainDeviceBoot{Order: uint(n)}
}

func bootNumberOf(b *libvirtxml.DomainDeviceBoot) int {
	if b == nil {
		return 0
	}
	return int(b.Order)
}

// expandDisk returns a copy with all optional elements that diskFieldCodecs needs.
func expandDisk(d libvirtxml.DomainDisk) libvirtxml.DomainDisk {
	d.Driver, d.Target, d.IOTune = CopyOrZero(d.Driver), CopyOrZero(d.Target), CopyOrZero(d.IOTune)
	return d
}

// expandNIC returns a copy with all optional elements that nicFieldCodecs needs.
func expandNIC(n libvirtxml.DomainInterface) libvirtxml.DomainInterface {
	n.Model, n.Driver, n.Link, n.Bandwidth = CopyOrZero(n.Model), CopyOrZero(n.Driver), CopyOrZero(n.Link), CopyOrZero(n.Bandwidth)
	n.Bandwidth.Inbound, n.Bandwidth.Outbound = CopyOrZero(n.Bandwidth.Inbound), CopyOrZero(n.Bandwidth.Outbound)
	return n
}

// CopyOrZero returns a copy of *v, or a zero value if v is nil.
func CopyOrZero[T any](v *T) *T {
	out := new(T)
	if v != nil {
		*out = *v
	}
	return out
}

// compactDisk returns the disk without empty elements.
func compactDisk(d libvirtxml.DomainDisk) libvirtxml.DomainDisk {
	d.IOTune = nilIfZero(d.IOTune)
	return d
}

// compactNIC returns the NIC without empty elements.
func compactNIC(n libvirtxml.DomainInterface) libvirtxml.DomainInterface {
	n.Driver, n.Link = nilIfZero(n.Driver), nilIfZero(n.Link)
	n.Bandwidth.Inbound, n.Bandwidth.Outbound = nilIfZero(n.Bandwidth.Inbound), nilIfZero(n.Bandwidth.Outbound)
	n.Bandwidth = nilIfZero(n.Bandwidth)
	return n
}

// nilIfZero returns v, or nil if *v is zero.
func nilIfZero[T comparable](v *T) *T {
	var none T
	if *v == none {
		return nil
	}
	return v
}

// ReadDisk reads the fields of a disk; applied is the disk as last applied. Cache mode "none" counts as the default if
// the spec sets no mode, because setDisk chooses it for storage with direct I/O.
func ReadDisk(d libvirtxml.DomainDisk, applied fleet.Disk) fleet.Disk {
	x, out := expandDisk(d), applied
	for _, p := range diskFieldCodecs {
		p.read(&x, &out)
	}
	if applied.Cache == "" && out.Cache == "none" {
		out.Cache = ""
	}
	return out
}

// ReadNIC returns the spec's NIC with its fields read from the definition's NIC.
func ReadNIC(n libvirtxml.DomainInterface, spec fleet.NIC) fleet.NIC {
	x := expandNIC(n)
	for _, p := range nicFieldCodecs {
		p.read(&x, &spec)
	}
	return spec
}

// setDisk writes the fields that selected accepts. If direct is set, a disk without a cache mode gets the mode "none".
func setDisk(d libvirtxml.DomainDisk, want fleet.Disk, direct bool, selected func(field string) bool) libvirtxml.DomainDisk {
	x := expandDisk(d)
	if want.Cache == "" && direct {
		want.Cache = "none"
	}
	for _, p := range diskFieldCodecs {
		if selected(p.field) {
			p.write(&x, want)
		}
	}
	return compactDisk(x)
}

func setNIC(n libvirtxml.DomainInterface, want fleet.NIC, selected func(field string) bool) libvirtxml.DomainInterface {
	x := expandNIC(n)
	for _, p := range nicFieldCodecs {
		if selected(p.field) {
			p.write(&x, want)
		}
	}
	return compactNIC(x)
}

// allFields makes setDisk and setNIC write every field.
func allFields(string) bool { return true }

// assignTargetNames assigns target names, other than those in taken, to disks without one. The guest orders its disks by
// these names.
func assignTargetNames(devices *libvirtxml.DomainDeviceList, taken []string) {
	for i := range devices.Disks {
		d := &devices.Disks[i]
		if d.Target == nil || d.Target.Dev != "" {
			continue
		}
		for k := 0; d.Target.Dev == ""; k++ {
			name := busTargetName(d.Target.Bus, k)
			if !slices.Contains(taken, name) && !slices.ContainsFunc(devices.Disks, func(o libvirtxml.DomainDisk) bool { return DiskTargetOf(&o) == name }) {
				d.Target.Dev = name
			}
		}
	}
}

// busTargetName returns the target name of disk k on the bus. Each NVMe disk has its own controller, because the serial
// number belongs to the controller.
func busTargetName(bus string, k int) string {
	switch bus {
	case "virtio":
		return diskTargetName("vd", k)
	case "ide":
		return diskTargetName("hd", k)
	case "nvme":
		return fmt.Sprintf("nvme%dn1", k)
	}
	return diskTargetName("sd", k)
}

// updateNVMeControllers removes NVMe controllers without a disk. Each remaining controller gets the serial number of its
// disk.
func updateNVMeControllers(devices *libvirtxml.DomainDeviceList) {
	serials := map[uint]string{}
	for _, d := range devices.Disks {
		var at uint
		if d.Target == nil || d.Target.Bus != "nvme" {
			continue
		}
		if _, err := fmt.Sscanf(d.Target.Dev, "nvme%dn", &at); err == nil {
			serials[at] = d.Serial
		}
	}
	devices.Controllers = slices.DeleteFunc(devices.Controllers, func(c libvirtxml.DomainController) bool {
		return c.Type == "nvme" && c.Index != nil && serials[*c.Index] == ""
	})
	for i := range devices.Controllers {
		if c := &devices.Controllers[i]; c.Type == "nvme" && c.Index != nil {
			c.NVME = &libvirtxml.DomainControllerNVME{Serial: serials[*c.Index]}
		}
	}
}

// diskTargetName returns "vda" for 0, "vdz" for 25 and "vdaa" for 26.
func diskTargetName(prefix string, i int) string {
	name := ""
	for ; i >= 0; i = i/26 - 1 {
		name = string(rune('a'+i%26)) + name
	}
	return prefix + name
}

// addSCSIController adds a virtio-scsi controller for SCSI disks. libvirt's default is an old model that few guests
// support.
func addSCSIController(devices *libvirtxml.DomainDeviceList) {
	if !slices.ContainsFunc(devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.Target != nil && d.Target.Bus == "scsi" }) ||
		slices.ContainsFunc(devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "scsi" }) {
		return
	}
	devices.Controllers = append(devices.Controllers, NewSCSIController())
}

// NewSCSIController returns a virtio-scsi controller.
func NewSCSIController() libvirtxml.DomainController {
	return libvirtxml.DomainController{Type: "scsi", Index: new(uint), Model: "virtio-scsi"}
}

// updateBootOrder removes the boot order by device kind if a device has a boot order, and otherwise adds the boot order
// by device kind if it is missing. libvirt refuses a definition with both.
func updateBootOrder(x *libvirtxml.Domain) {
	if x.OS == nil {
		return
	}
	numbered := slices.ContainsFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.Boot != nil }) ||
		slices.ContainsFunc(x.Devices.Interfaces, func(n libvirtxml.DomainInterface) bool { return n.Boot != nil })
	switch {
	case numbered:
		x.OS.BootDevices = nil
	case len(x.OS.BootDevices) == 0 && x.OS.Kernel == "" && !slices.ContainsFunc(x.Devices.Hostdevs, func(d libvirtxml.DomainHostdev) bool { return d.Boot != nil }):
		x.OS.BootDevices = bootDevices()
	}
}

func bootDevices() []libvirtxml.DomainBootDevice {
	return []libvirtxml.DomainBootDevice{{Dev: "hd"}, {Dev: "cdrom"}, {Dev: "network"}}
}

// plannedChange returns the first planned change whose device match accepts, or nil.
func plannedChange[T any](all []hypervisor.DeviceChange[T], match func(T) bool) *hypervisor.DeviceChange[T] {
	i := slices.IndexFunc(all, func(s hypervisor.DeviceChange[T]) bool { return match(s.Device) })
	if i < 0 {
		return nil
	}
	return &all[i]
}
