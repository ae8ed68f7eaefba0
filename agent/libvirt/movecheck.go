package libvirt

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// movable refuses a disk if a copy of its one file would be incomplete, or if another VM or volume needs the old file.
func (m *moving) movable(ctx context.Context, s seen) (header, error) {
	refuse := func(format string, args ...any) (header, error) {
		return header{}, fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not moved: %s", m.from.number, m.from.volume, fmt.Sprintf(format, args...))
	}
	switch {
	case s.transient:
		return header{}, hypervisor.Refusal(hypervisor.Undefined())
	case s.applied == nil || !hasRef(s.applied.Spec, m.from.ref()) || s.keptDisk == nil:
		return refuse("the VM's definition on this host does not have it. Reapply what was changed there first.")
	case pathOf(s.keptDisk) != m.from.path() || s.live != nil && (s.liveDisk == nil || pathOf(s.liveDisk) != m.from.path()):
		return refuse("the VM uses %s in its place, as after a snapshot or a change on the host. Merge that first.", filepath.Base(pathOf(s.keptDisk)))
	case s.keptDisk.ReadOnly != nil || s.keptDisk.Shareable != nil:
		return refuse("it is shared or read-only in the VM's definition.")
	case s.keptDisk.Driver != nil && s.keptDisk.Driver.Type == fleet.Raw:
		return refuse("it is a raw file in the VM's definition.")
	case s.live != nil && s.liveDisk.Mirror != nil:
		return refuse("another copy of it is under way on the host (virsh blockjob). End that first.")
	case s.live != nil && s.liveDisk.BackingStore != nil && sourcePath(s.liveDisk.BackingStore.Source) != "":
		return refuse("it stands on another file, %s. Merge that first.", filepath.Base(sourcePath(s.liveDisk.BackingStore.Source)))
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
		{"its memory saved on the host (virsh managedsave), which knows the old place. Start it first, or drop what was saved.", func(l *golibvirt.Libvirt) (int32, error) {
			return l.DomainHasManagedSaveImage(s.ref, 0)
		}},
	} {
		n, err := call(ctx, m.c, look.many)
		if err != nil {
			return header{}, err
		}
		if n > 0 {
			return refuse("the VM has %s", look.what)
		}
	}
	f, err := m.volumeFile(ctx, m.c, m.from)
	if err != nil {
		return header{}, err
	}
	switch {
	case f.Format != "qcow2":
		return refuse("its file has the format %s, not qcow2.", f.Format)
	case f.RefersTo != "":
		return refuse("its file refers to %s. Merge that first.", f.RefersTo)
	case f.Encrypted:
		return refuse("its file is encrypted.")
	case f.Fault != "":
		return refuse("its file is not sound: %s.", f.Fault)
	}
	if s.live != nil {
		n, err := bounded(ctx, func() (uint32, error) { return snapshotsIn(m.from.path()) })
		if err != nil || n > 0 {
			return header{}, cmpErr(err, fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not moved: its file has %d snapshots inside, which would be lost. Delete them with qemu-img, or move it while the VM is off.", m.from.number, m.from.volume, n))
		}
	}
	all, err := m.inventory(ctx, m.c)
	if err != nil {
		return header{}, err
	}
	user, err := m.userOf(ctx, all, m.in.VM.ID, m.from)
	if err != nil {
		return header{}, err
	}
	if user != "" {
		return refuse("another VM of the host uses its file.")
	}
	other, err := m.backedBy(ctx, m.c, m.from, f.id)
	if err == nil && other != "" {
		return refuse("the volume %s stands on it. Flatten or delete that one first.", other)
	}
	return f.header, err
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func hasRef(s fleet.VMSpec, ref fleet.Volref) bool {
	return slices.ContainsFunc(s.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
}

// snapshotsIn returns the number of internal snapshots in a qcow2 file.
func snapshotsIn(path string) (uint32, error) {
	f, err := openImage(path, false)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var number [4]byte
	_, err = f.ReadAt(number[:], 60)
	return binary.BigEndian.Uint32(number[:]), err
}
