package domxml

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// CopiedDisk is a disk that a live migration copies to another file.
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

func diskAtPath(x *libvirtxml.Domain, path string) *libvirtxml.DomainDisk {
	if x.Devices == nil {
		return nil
	}
	for i := range x.Devices.Disks {
		if DiskPathOf(&x.Devices.Disks[i]) == path {
			return &x.Devices.Disks[i]
		}
	}
	return nil
}
