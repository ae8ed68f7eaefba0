package domxml

import (
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
)

// DeviceNames finds the aliases of Quantix for the devices of a VM's definitions. The disks and NICs of an adopted VM have
// no alias of Quantix in libvirt before the guest's next start, so they are recognized by the recorded file and MAC
// address. The zero value knows only aliases in libvirt.
type DeviceNames struct {
	record  hypervisor.AppliedRecord
	volumes VolumeLookup
	kept    []libvirtxml.DomainDisk
}

// NewDeviceNames returns the names for the VM with the record, or with none. kept is the VM's persistent definition: a
// running guest's disk has the name of the disk with the same target there.
func NewDeviceNames(record *hypervisor.AppliedRecord, volumes VolumeLookup, kept *libvirtxml.Domain) DeviceNames {
	if record == nil || !record.Adopted {
		return DeviceNames{}
	}
	out := DeviceNames{record: *record, volumes: volumes}
	if kept != nil && kept.Devices != nil {
		out.kept = kept.Devices.Disks
	}
	return out
}

// userAliasPrefix starts the aliases that libvirt takes from a definition. libvirt chooses other aliases itself.
const userAliasPrefix = "ua-"

// DiskName returns the disk's alias.
func (n DeviceNames) DiskName(d *libvirtxml.DomainDisk) string {
	alias := AliasOf(d.Alias)
	if !n.record.Adopted || isDrive(d) || strings.HasPrefix(alias, userAliasPrefix) {
		return alias
	}
	if name := n.nameOfFile(d); name != "" {
		return name
	}
	k := slices.IndexFunc(n.kept, func(o libvirtxml.DomainDisk) bool { return DiskTargetOf(&o) == DiskTargetOf(d) && !isDrive(&o) })
	if k < 0 {
		return alias
	}
	if HasAliasPrefix(n.kept[k].Alias, DiskAliasPrefix) {
		return AliasOf(n.kept[k].Alias)
	}
	if name := n.nameOfFile(&n.kept[k]); name != "" {
		return name
	}
	return alias
}

// nameOfFile returns the alias of the disk whose file the record has; empty: none.
func (n DeviceNames) nameOfFile(d *libvirtxml.DomainDisk) string {
	path := DiskPathOf(d)
	for _, o := range n.record.Spec.Disks {
		if path != "" && n.volumes.AppliedPath(n.record, o.Ref()) == path {
			return DiskAlias(o.Ref())
		}
	}
	if slices.Contains(n.record.Removed, path) {
		return DiskAliasPrefix + path
	}
	return ""
}

// NICName returns the NIC's alias.
func (n DeviceNames) NICName(i *libvirtxml.DomainInterface) string {
	alias, mac := AliasOf(i.Alias), NICMACOf(i)
	if !n.record.Adopted || mac == "" || strings.HasPrefix(alias, userAliasPrefix) {
		return alias
	}
	for _, o := range n.record.Spec.NICs {
		if strings.EqualFold(o.MAC, mac) {
			return NICAlias(o)
		}
	}
	if slices.Contains(n.record.Removed, mac) {
		return NICAliasPrefix + mac
	}
	return alias
}

// NameDisks writes the names of the disks into the definition, and reports whether it changed the definition.
func (n DeviceNames) NameDisks(x *libvirtxml.Domain) (changed bool) {
	if x == nil || x.Devices == nil {
		return false
	}
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		if name := n.DiskName(d); name != AliasOf(d.Alias) {
			d.Alias, changed = &libvirtxml.DomainAlias{Name: name}, true
		}
	}
	return changed
}

// RemovedDevices returns the disks and NICs without an alias of Quantix that the edit removes from the definition: the
// paths of the disks, and the MAC addresses of the NICs. A running guest may keep them for a while.
func (n DeviceNames) RemovedDevices(x *libvirtxml.Domain, edit hypervisor.DefinitionEdit) (out []string) {
	if !n.record.Adopted || x.Devices == nil {
		return nil
	}
	for i := range x.Devices.Disks {
		for _, o := range edit.RemoveDisks {
			if d := &x.Devices.Disks[i]; n.DiskName(d) == DiskAlias(o.Ref()) {
				out = append(out, DiskPathOf(d))
			}
		}
	}
	for _, o := range edit.RemoveNICs {
		out = append(out, strings.ToLower(o.MAC))
	}
	return out
}
