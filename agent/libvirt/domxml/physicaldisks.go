package domxml

import (
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/blockdev"
	"quantix/internal/fleet"
)

// PhysicalDiskDir is the directory of the stable names of physical disks.
const PhysicalDiskDir = "/" + blockdev.DiskNameDir + "/"

// PhysicalDiskName returns the spec's name of a physical disk. It is empty if the disk is not a physical disk.
func PhysicalDiskName(d *libvirtxml.DomainDisk) string {
	if !HasAliasPrefix(d.Alias, hostdevAliasPrefix) {
		return ""
	}
	name, ok := strings.CutPrefix(DiskPathOf(d), PhysicalDiskDir)
	if !ok {
		name = DiskPathOf(d) // somebody edited the path
	}
	return fleet.PhysicalDevice + name
}

// writePhysicalDisks is writeHostDevices for disks. It appends physical disks after the VM's own disks, so that the
// VM's own disks keep their order and target names. It uses no target name of taken.
func writePhysicalDisks(x *libvirtxml.Domain, s fleet.VMSpec, taken []string) {
	d := x.Devices
	d.Disks = slices.DeleteFunc(d.Disks, func(o libvirtxml.DomainDisk) bool {
		name := PhysicalDiskName(&o)
		return name != "" && !slices.ContainsFunc(s.HostDevices, func(w fleet.VMHostDevice) bool { return w.Device == name })
	})
	for _, w := range s.HostDevices {
		if w.PhysicalDiskName() == "" || slices.ContainsFunc(d.Disks, func(o libvirtxml.DomainDisk) bool { return PhysicalDiskName(&o) == w.Device }) {
			continue
		}
		d.Disks = append(d.Disks, libvirtxml.DomainDisk{
			Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw", Cache: "none", Discard: "unmap"},
			Source: &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: PhysicalDiskDir + w.PhysicalDiskName()}},
			Target: &libvirtxml.DomainDiskTarget{Bus: "virtio"}, Alias: &libvirtxml.DomainAlias{Name: hostdevAliasPrefix + aliasHash(w.Device)},
		})
	}
	assignTargetNames(d, taken)
}
