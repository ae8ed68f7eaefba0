package libvirt

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// checkMovable refuses a disk if a copy of the disk's file would be incomplete, or if another VM or volume needs the
// old file. It returns the header of the disk's file.
func (m *diskMigration) checkMovable(ctx context.Context, s diskMigrationState) (hostfile.ImageHeader, error) {
	refuse := func(format string, args ...any) (hostfile.ImageHeader, error) {
		return hostfile.ImageHeader{}, fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not moved: %s", m.from.Number, m.from.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case s.transient:
		return hostfile.ImageHeader{}, hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case s.applied == nil || !specHasVolume(s.applied.Spec, m.from.Ref()) || s.persistentDisk == nil:
		return refuse("the VM's definition on this host does not have the disk. Reapply the VM's configuration first.")
	case domxml.DiskPathOf(s.persistentDisk) != m.from.Path() || s.live != nil && (s.liveDisk == nil || domxml.DiskPathOf(s.liveDisk) != m.from.Path()):
		return refuse("the VM uses the file %s instead, for example because of a snapshot or a change on the host. Merge that file first.", filepath.Base(domxml.DiskPathOf(s.persistentDisk)))
	case s.persistentDisk.ReadOnly != nil || s.persistentDisk.Shareable != nil:
		return refuse("the VM's definition has the disk as shared or read-only.")
	case !m.copiesRaw && s.persistentDisk.Driver != nil && s.persistentDisk.Driver.Type == fleet.Raw:
		return refuse("the VM's definition has the disk as a raw file.")
	case s.live != nil && s.liveDisk.Mirror != nil:
		return refuse("the host is already copying the disk (virsh blockjob). End that copy first.")
	case s.live != nil && s.liveDisk.BackingStore != nil && domxml.SourcePath(s.liveDisk.BackingStore.Source) != "":
		return refuse("the disk is backed by another file, %s. Merge that file first.", filepath.Base(domxml.SourcePath(s.liveDisk.BackingStore.Source)))
	}
	for _, look := range []struct {
		what string
		many func(*golibvirt.Libvirt) (int32, error)
	}{
		{"snapshots, which would be lost (virsh snapshot-list). Delete them first.", func(l *golibvirt.Libvirt) (int32, error) { return l.DomainSnapshotNum(s.ref, 0) }},
		{"checkpoints of backups, which would be lost (virsh checkpoint-list). Delete them first.", func(l *golibvirt.Libvirt) (int32, error) {
			_, n, err := l.DomainListAllCheckpoints(s.ref, 0, 0)
			return n, err
		}},
		{"its memory saved on the host (virsh managedsave), and the saved state refers to the old file. Start the VM or remove the saved state first.", func(l *golibvirt.Libvirt) (int32, error) {
			return l.DomainHasManagedSaveImage(s.ref, 0)
		}},
	} {
		n, err := conn.Call(ctx, m.c, look.many)
		if err != nil {
			return hostfile.ImageHeader{}, err
		}
		if n > 0 {
			return refuse("the VM has %s", look.what)
		}
	}
	f, err := m.volumeFile(ctx, m.c, m.from)
	if err != nil {
		return hostfile.ImageHeader{}, err
	}
	switch {
	case f.Format != "qcow2" && (!m.copiesRaw || f.Format != fleet.Raw):
		return refuse("the disk's file has the format %s, not qcow2.", f.Format)
	case f.RefersTo != "":
		return refuse("the disk's file refers to %s. Merge that file first.", f.RefersTo)
	case f.Encrypted:
		return refuse("the disk's file is encrypted.")
	case f.HeaderFault != "":
		return refuse("the disk's file is invalid: %s.", f.HeaderFault)
	}
	if s.live != nil && f.Format == "qcow2" {
		n, err := hostfile.RunWithinLookupTimeout(ctx, func() (uint32, error) { return internalSnapshotCount(m.from.Path()) })
		if err != nil || n > 0 {
			return hostfile.ImageHeader{}, preferFirstError(err, fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not moved: the disk's file has %d internal snapshots, which would be lost. Delete the snapshots with qemu-img, or move the disk while the VM is off.", m.from.Number, m.from.Name, n))
		}
	}
	all, err := m.readDomains(ctx, m.c)
	if err != nil {
		return hostfile.ImageHeader{}, err
	}
	user, err := m.domainUsingVolume(ctx, all, m.in.VM.ID, m.from)
	if err != nil {
		return hostfile.ImageHeader{}, err
	}
	if user != "" {
		return refuse("another VM of the host uses the disk's file.")
	}
	other, err := m.overlayOf(ctx, m.c, m.from, f.ID)
	if err == nil && other != "" {
		return refuse("the volume %s is backed by the disk. Flatten or delete that volume first.", other)
	}
	return f.ImageHeader, err
}

func preferFirstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func specHasVolume(s fleet.VMSpec, ref fleet.Volref) bool {
	return slices.ContainsFunc(s.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
}

// internalSnapshotCount returns the number of internal snapshots in a qcow2 file.
func internalSnapshotCount(path string) (uint32, error) {
	f, err := hostfile.OpenImage(path, false)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var number [4]byte
	_, err = f.ReadAt(number[:], 60)
	return binary.BigEndian.Uint32(number[:]), err
}
