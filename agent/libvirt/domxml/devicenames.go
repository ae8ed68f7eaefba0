package domxml

import (
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
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
// running guest's disk has the name of the disk with the same target there, if that disk's file backs its file.
func NewDeviceNames(record *hypervisor.AppliedRecord, volumes VolumeLookup, kept *libvirtxml.Domain) DeviceNames {
	if record == nil || !record.Adopted {
		return DeviceNames{}
	}
	out := DeviceNames{record: *record, volumes: volumes}
	if kept != nil && kept.Devices != nil {
		out.kept = kept.Devices.Disks
	}
	there := deviceKeys(kept) // somebody put the device back
	out.record.Removed = slices.DeleteFunc(slices.Clone(record.Removed), func(key string) bool { return slices.Contains(there, key) })
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
	name := AliasOf(n.kept[k].Alias)
	if !strings.HasPrefix(name, DiskAliasPrefix) {
		name = n.nameOfFile(&n.kept[k])
	}
	if name == "" || !n.isBackedByDisk(d, name, DiskPathOf(&n.kept[k])) {
		return alias
	}
	return name
}

// isBackedByDisk reports whether the disk's file is, or is backed by, the file path or the recorded file of the disk with
// the name. Somebody may have attached another disk to the running guest at the target of that disk.
func (n DeviceNames) isBackedByDisk(d *libvirtxml.DomainDisk, name, path string) bool {
	return slices.ContainsFunc(DiskFilesOf(d), func(f DiskFile) bool {
		return f.Path == path || slices.ContainsFunc(n.record.Spec.Disks, func(o fleet.Disk) bool {
			return DiskAlias(o.Ref()) == name && n.volumes.AppliedPath(n.record, o.Ref()) == f.Path
		})
	})
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

// RemovedDevices returns the disks and NICs without an alias of Quantix that the edit, or an earlier one, removes from the
// definition: the paths of the disks, and the MAC addresses of the NICs. A running guest may keep them for a while.
func (n DeviceNames) RemovedDevices(x *libvirtxml.Domain, edit hypervisor.DefinitionEdit) []string {
	if !n.record.Adopted || x.Devices == nil {
		return nil
	}
	out := slices.Clone(n.record.Removed)
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

// StillPresent returns the removed devices of the record that the running guest has.
func StillPresent(removed []string, live *libvirtxml.Domain) []string {
	there := deviceKeys(live)
	return slices.DeleteFunc(slices.Clone(removed), func(key string) bool { return !slices.Contains(there, key) })
}

// deviceKeys returns the paths of the disks and the MAC addresses of the NICs.
func deviceKeys(x *libvirtxml.Domain) (out []string) {
	if x == nil || x.Devices == nil {
		return nil
	}
	for i := range x.Devices.Disks {
		out = append(out, DiskPathOf(&x.Devices.Disks[i]))
	}
	for i := range x.Devices.Interfaces {
		out = append(out, NICMACOf(&x.Devices.Interfaces[i]))
	}
	return out
}
