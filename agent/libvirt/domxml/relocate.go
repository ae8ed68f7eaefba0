package domxml

import (
	"fmt"
	"path"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// CopiedDisk is a disk that a migration copies to another file.
type CopiedDisk struct {
	From, To string       // paths
	Ref      fleet.Volref // the new volume
}

// SetCopiedDisks changes the definition to the copies of the disks, and returns the disks' targets in the order of
// copies. The alias of a running guest's disk identifies QEMU's device, so only the persistent definition gets the alias
// of the new volume.
func SetCopiedDisks(x *libvirtxml.Domain, copies []CopiedDisk, persistent bool) (targets []string, err error) {
	for _, c := range copies {
		d := diskAtPath(x, c.From)
		if d == nil {
			return nil, fmt.Errorf("the VM's definition does not have the disk %s", c.From)
		}
		targets = append(targets, DiskTargetOf(d))
		d.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: c.To}}
		d.BackingStore, d.Mirror = nil, nil
		if persistent {
			d.Alias = &libvirtxml.DomainAlias{Name: DiskAlias(c.Ref)}
		}
	}
	return targets, nil
}

// SetMovedDisks changes the persistent definition of a VM that is off to the disks' new files, and its UEFI variables to
// the file that is named after the VM's ID. Everything else stays.
func SetMovedDisks(x *libvirtxml.Domain, moves []CopiedDisk) error {
	for _, c := range moves {
		d := diskAtPath(x, c.From)
		if d == nil || d.Source.File == nil {
			return fmt.Errorf("the VM's definition does not have the file %s as a disk", c.From)
		}
		d.Source.File.File, d.BackingStore = c.To, nil
		if HasAliasPrefix(d.Alias, DiskAliasPrefix) {
			d.Alias = &libvirtxml.DomainAlias{Name: DiskAlias(c.Ref)}
		}
	}
	if !HasOwnVariables(x) {
		suffix := PlainVarsSuffix
		if HasSecureBoot(x) {
			suffix = SecureVarsSuffix
		}
		if x.OS.NVRam == nil {
			x.OS.NVRam = &libvirtxml.DomainNVRam{}
		}
		x.OS.NVRam.NVRam = path.Join(NVRAMDir, x.UUID+suffix)
	}
	return nil
}

// HasOwnVariables reports whether the file of the definition's UEFI variables is named after the VM's ID, so that no other
// VM has it. A definition without UEFI variables counts, too.
func HasOwnVariables(x *libvirtxml.Domain) bool {
	file := VariablesPath(x)
	return file == "" || file == path.Join(NVRAMDir, x.UUID+PlainVarsSuffix) || file == path.Join(NVRAMDir, x.UUID+SecureVarsSuffix)
}

// VariablesPath returns the file of the definition's UEFI variables; empty: it has none. If a definition does not name the
// file, libvirt names it after the domain at each start.
func VariablesPath(x *libvirtxml.Domain) string {
	switch {
	case x.OS == nil:
		return ""
	case x.OS.NVRam != nil && x.OS.NVRam.NVRam != "":
		return x.OS.NVRam.NVRam
	case firmwareOf(x) != fleet.UEFI || x.OS.Loader != nil && x.OS.Loader.Stateless == "yes":
		return ""
	}
	return path.Join(NVRAMDir, x.Name+PlainVarsSuffix)
}

func diskAtPath(x *libvirtxml.Domain, file string) *libvirtxml.DomainDisk {
	if x.Devices == nil {
		return nil
	}
	for i := range x.Devices.Disks {
		if DiskPathOf(&x.Devices.Disks[i]) == file {
			return &x.Devices.Disks[i]
		}
	}
	return nil
}
