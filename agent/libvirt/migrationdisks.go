package libvirt

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/migration"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// makeSocketDir makes the directory for the sockets of the VM's migration.
func (b *Backend) makeSocketDir(ctx context.Context, c *conn.Conn, id fleet.VMID, side migration.Side) (migration.SocketDir, error) {
	capabilities, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.ConnectGetCapabilities() })
	if err != nil {
		return "", err
	}
	uid, err := migration.QEMUUser(capabilities)
	if err != nil {
		return "", err
	}
	return migration.MakeSocketDir(id, side, uid)
}

// copiedDisk returns the disk migration of a copied disk, for its checks and for its file on the target.
func (b *Backend) copiedDisk(c *conn.Conn, d fleet.MigratingDisk, vm fleet.VM, pools []fleet.Pool) (*diskMigration, error) {
	from, err := storage.LocalVolumeOf(d.Disk, pools)
	if err != nil {
		return nil, err
	}
	to, err := storage.LocalVolumeOf(d.To, pools)
	if err != nil {
		return nil, err
	}
	for _, v := range []storage.LocalVolume{from, to} {
		if v.IsInBlockPool() {
			return nil, errNotFilePool(v.Pool)
		}
	}
	i := slices.IndexFunc(vm.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Disk || o.Ref() == d.To })
	if i < 0 {
		return nil, errors.New("the portal sent a disk to copy that the VM does not have")
	}
	from.Number, to.Format = i+1, vm.Spec.Disks[i].FileFormat()
	if !fleet.IsVolumeName(to.Name) || fleet.IsRawName(to.Name) != (to.Format == fleet.Raw) {
		return nil, fleet.Errorf(fleet.Invalid, "%q is not a valid name for the copy of disk %d.", to.Name, from.Number)
	}
	return &diskMigration{
		Backend: b, c: c, from: from, to: to, copiesRaw: true,
		in: hypervisor.MoveDiskWork{VM: vm, Pools: pools, Params: fleet.DiskMigrationParams{Disk: d.Disk, To: d.To}},
	}, nil
}

// prepareDisks checks the copied disks, and prepares the definitions that name their copies on the target.
func (m *liveMigration) prepareDisks(ctx context.Context) error {
	if len(m.in.Params.Disks) == 0 {
		return nil
	}
	var copies []domxml.CopiedDisk
	var last diskMigrationState
	for _, d := range m.in.Params.Disks {
		disk, err := m.copiedDisk(m.c, d, m.in.VM, m.in.Pools)
		if err != nil {
			return err
		}
		if last, err = disk.readState(ctx); err != nil {
			return err
		}
		h, err := disk.checkMovable(ctx, last)
		if err != nil {
			return err
		}
		f, err := m.volumeFile(ctx, m.c, disk.from)
		if err != nil {
			return err
		}
		m.disks = append(m.disks, disk)
		m.offer.Disks = append(m.offer.Disks, migration.OfferedDisk{Bytes: h.Size, Allocated: f.Alloc})
		copies = append(copies, domxml.CopiedDisk{From: disk.from.Path(), To: disk.to.Path(), Ref: disk.to.Ref()})
	}
	applied := *last.applied
	for _, d := range m.disks {
		applied = d.appliedWithNewDisk(applied)
	}
	text, err := json.Marshal(applied)
	if err != nil {
		return err
	}
	stamp := last.metadata
	stamp.Applied = string(text)
	live, err := conn.ReadDefinition(ctx, m.c, m.ref, golibvirt.DomainXMLMigratable|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	if m.params.Disks, err = domxml.SetCopiedDisks(live, copies, false); err != nil {
		return err
	}
	for i, target := range m.params.Disks {
		m.offer.Disks[i].Target = target
	}
	if _, err := domxml.SetCopiedDisks(last.persistentXML, copies, true); err != nil {
		return err
	}
	live.Metadata = domxml.PutQuantixMetadata(live.Metadata, stamp)
	last.persistentXML.Metadata = domxml.PutQuantixMetadata(last.persistentXML.Metadata, stamp)
	if m.params.DestXML, err = live.Marshal(); err != nil {
		return err
	}
	m.params.PersistXML, err = last.persistentXML.Marshal()
	return err
}

// createDisks creates the empty files into which the source copies the disks. It records each file before the file gets
// its final name, so that the job never removes a file of another origin.
func (m *incomingVM) createDisks(ctx context.Context, offered []migration.OfferedDisk) error {
	if len(offered) != len(m.Disks) {
		return errors.New("the source host offers other disks than the portal ordered")
	}
	for i, d := range m.Disks {
		disk, err := m.incomingDisk(d)
		if err != nil {
			return err
		}
		if err := m.createIncomingFile(ctx, disk, d, offered[i]); err != nil {
			return err
		}
	}
	return nil
}

// incomingDisk returns the disk migration that creates and removes the file of a copied disk.
func (m *incomingVM) incomingDisk(d fleet.MigratingDisk) (*diskMigration, error) {
	disk, err := m.copiedDisk(m.c, d, m.Apply.VM, m.Apply.Pools)
	if err != nil {
		return nil, err
	}
	disk.in.RecordedFile = m.CreatedFile(d.To)
	disk.in.RecordFile = func(file string) error { return m.RecordFile(d.To, file) }
	return disk, nil
}

// sizeTolerance is how much larger than ordered the virtual size of an offered disk may be, in bytes.
const sizeTolerance = 1 << 20

func (m *incomingVM) createIncomingFile(ctx context.Context, disk *diskMigration, d fleet.MigratingDisk, offered migration.OfferedDisk) error {
	if offered.Bytes <= 0 || d.TakesBytes > 0 && offered.Bytes > d.TakesBytes+sizeTolerance {
		return fleet.Errorf(fleet.Conflict, "The source host offers disk %d with %s, but the portal reserved %s for it.", disk.from.Number, fleet.FormatBytes(offered.Bytes), fleet.FormatBytes(d.TakesBytes))
	}
	pool, err := m.pools.CheckedPool(ctx, m.c, disk.to.Pool)
	if err != nil {
		return err
	}
	if err := disk.removeCopies(ctx); err != nil {
		return err
	}
	free, err := disk.freeTargetBytes(ctx)
	if err != nil {
		return err
	}
	if free < offered.Allocated {
		return errNoCopySpace(disk.to, free, offered.Allocated)
	}
	w := &volumeJob{Backend: m.Backend, LocalVolume: disk.to, c: m.c, pool: pool}
	if err := w.createUnfinishedVolume(ctx, newVolumeSpec{format: disk.to.Format, size: offered.Bytes}); err != nil {
		return err
	}
	if err := disk.recordFile(ctx); err != nil {
		return err
	}
	if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, renameUnfinishedFile(disk.to) }); err != nil {
		return err
	}
	m.pools.Refresh(ctx, m.c, pool)
	m.expirePoolCaches(disk.to.Pool)
	return nil
}

// removeDisks removes the files that this job has created. It leaves files of another origin.
func (m *incomingVM) removeDisks(ctx context.Context) (failed error) {
	for _, d := range m.Disks {
		disk, err := m.incomingDisk(d)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := disk.removeOwnCopies(ctx); err != nil {
			failed = errors.Join(failed, err)
		}
		m.expirePoolCaches(disk.to.Pool)
	}
	return failed
}
