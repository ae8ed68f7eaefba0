package libvirt

import (
	"context"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// migrationRun is the state of one MigrateVM call.
type migrationRun struct {
	*Backend
	c         *conn.Conn
	in        hypervisor.MigrateVMWork
	disks     []*diskMigration      // one for each disk of the migration, so that migration reuses the checks of MoveDisk
	sentFiles []hostfile.VolumeFile // the disks' files when they were sent
}

// MigrateVM implements hypervisor.VMs. It removes the definition last, after the destination has received all disks
// and no disk has changed since. Until then this host can start the VM; afterwards nobody can start the VM here.
func (b *Backend) MigrateVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	act := "send " + in.VM.Name
	files, err := b.lockFilesShared(ctx, hypervisor.ApplyWork{VM: in.VM, Pools: in.Pools})
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		l := &migrationRun{Backend: b, c: c, in: in}
		return l.runMigration(ctx)
	}))
}

func (l *migrationRun) runMigration(ctx context.Context) error {
	for _, d := range l.in.Params.Disks {
		from, err := storage.LocalVolumeOf(d.Disk, l.in.Pools)
		if err != nil {
			return err
		}
		if from.IsInBlockPool() {
			return errNotFilePool(from.Pool)
		}
		from.Number = 1 + slices.IndexFunc(l.in.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Disk })
		l.disks = append(l.disks, &diskMigration{
			Backend: l.Backend, c: l.c, from: from, to: from,
			in: hypervisor.MoveDiskWork{VM: l.in.VM, Pools: l.in.Pools, Params: fleet.DiskMigrationParams{Disk: d.Disk, To: d.Disk}},
		})
	}
	for _, d := range l.in.VM.Spec.Disks {
		if !slices.Contains(l.in.Params.Stay, d.Ref()) && !slices.ContainsFunc(l.in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.Disk == d.Ref() }) {
			return hypervisor.RefuseMigration(l.in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
		}
	}
	s, err := l.readState(ctx)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
		return l.resumeWithoutDefinition(ctx)
	}
	if err != nil {
		return err
	}
	if err := l.checkMigratable(ctx, s); err != nil {
		return err
	}
	for i, m := range l.disks {
		if err := l.sendDisk(ctx, m, l.in.Params.Disks[i]); err != nil {
			return err
		}
	}
	if err := l.in.WaitDisksArrived(ctx); err != nil {
		return err
	}
	return l.removeDefinition(ctx)
}

// resumeWithoutDefinition handles a VM without a definition. An earlier call removed the definition, or somebody
// removed it on the host, perhaps after a run of the VM. The copy is valid only if the disks that remain on this host
// are unchanged since they were sent.
func (l *migrationRun) resumeWithoutDefinition(ctx context.Context) error {
	if err := l.in.WaitDisksArrived(ctx); err != nil {
		return err
	}
	for i, m := range l.disks {
		f, err := l.volumeFile(ctx, l.c, m.from)
		switch {
		case fleet.CodeOf(err) == fleet.NotFound:
		case err != nil:
			return err
		case l.in.SentStamp(l.in.Params.Disks[i]) != sentFileStamp(f):
			return hypervisor.RefuseChangedVM(l.in.VM.Name)
		}
	}
	if err := l.removeOtherSeeds(ctx, l.in.VM.ID); err != nil {
		return err
	}
	return l.filters.RemoveNICFilters(ctx, l.c, l.in.VM.ID, nil)
}

// sentFileStamp identifies the content of a disk's file by its ID, size and modification time. It ignores the owner,
// because libvirt changes that.
func sentFileStamp(f hostfile.VolumeFile) string {
	return hostfile.Version{ID: f.ID, Modified: f.Modified, Bytes: f.Bytes}.Stamp()
}

// readState returns the domain's current state.
func (l *migrationRun) readState(ctx context.Context) (diskMigrationState, error) {
	m := &diskMigration{Backend: l.Backend, c: l.c, in: hypervisor.MoveDiskWork{VM: l.in.VM}}
	uuid, err := conn.ParseUUID(l.in.VM.ID)
	if err != nil {
		return diskMigrationState{}, err
	}
	l.domains.invalidate(uuid)
	if _, err := l.readObservedDomain(ctx, l.c, l.in.VM.ID); err != nil {
		return diskMigrationState{}, err
	}
	return m.readState(ctx)
}

// checkMigratable refuses a VM whose state includes more than its disks.
func (l *migrationRun) checkMigratable(ctx context.Context, s diskMigrationState) error {
	x := s.persistentXML
	switch {
	case s.live != nil:
		return hypervisor.RefuseMigration(l.in.VM.Name, "the VM is running. Shut down the VM first.")
	case x.OS != nil && x.OS.NVRam != nil, x.OS != nil && x.OS.Loader != nil && x.OS.Loader.Type == "pflash":
		return hypervisor.RefuseMigration(l.in.VM.Name, "a migration does not copy the firmware's settings file (NVRAM).")
	case x.Devices != nil && len(x.Devices.TPMs) > 0:
		return hypervisor.RefuseMigration(l.in.VM.Name, "a migration does not copy the TPM's state.")
	case x.Devices != nil && len(x.Devices.Hostdevs) > 0:
		return hypervisor.RefuseMigration(l.in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	for _, m := range l.disks {
		of := s
		of.persistentDisk = m.migratingDiskIn(x)
		if _, err := m.checkMovable(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// sendDisk sends a disk's file. It fails before the last byte if somebody wrote to the file during the transfer. It
// also fails if the file changed since an earlier call, because the destination keeps the data that it already
// received.
func (l *migrationRun) sendDisk(ctx context.Context, m *diskMigration, d fleet.MigratingDisk) error {
	before, err := m.readUnusedFile(ctx)
	if err != nil {
		return err
	}
	switch l.in.SentStamp(d) {
	case sentFileStamp(before):
	case "":
		if err := l.in.RecordSending(d, sentFileStamp(before)); err != nil {
			return err
		}
	default:
		return hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	l.sentFiles = append(l.sentFiles, before)
	return hostfile.WaitUnlessHung(ctx, func() error {
		f, err := hostfile.OpenImage(m.from.Path(), false)
		if err != nil {
			return err
		}
		defer f.Close()
		return l.in.Send(ctx, d, func(ctx context.Context, do func(int64, []byte, int64) error) error {
			if err := transfer.FilePieces(f, before.Bytes)(ctx, do); err != nil {
				return err
			}
			return l.checkVMUnchanged(ctx, m, before)
		}, before.Bytes)
	})
}

func (l *migrationRun) checkVMUnchanged(ctx context.Context, m *diskMigration, before hostfile.VolumeFile) error {
	after, err := m.readUnusedFile(ctx)
	if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
		err = hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	return err
}

// removeDefinition removes the definition of an unchanged VM. If somebody starts the VM with virsh during the removal,
// removeDefinition restores the definition.
func (l *migrationRun) removeDefinition(ctx context.Context) error {
	unlock, err := l.vmLocks.Lock(ctx, l.in.VM.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := l.readState(ctx)
	if err != nil {
		return err
	}
	if s.live != nil {
		return hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	for i, m := range l.disks {
		if err := l.checkVMUnchanged(ctx, m, l.sentFiles[i]); err != nil {
			return err
		}
	}
	was, err := s.persistentXML.Marshal()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The rest of the migration must complete even if ctx ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer l.domains.invalidate(s.ref.UUID)
	if err := l.c.Do(ctx, func(v *golibvirt.Libvirt) error { return v.DomainUndefineFlags(s.ref, 0) }); err != nil {
		return err
	}
	back := func(why error) error {
		x := &libvirtxml.Domain{}
		if err := x.Unmarshal(was); err != nil {
			return err
		}
		if err := (&diskMigration{Backend: l.Backend, c: l.c}).defineDomain(ctx, x); err != nil {
			return fmt.Errorf("%w (and the VM's definition could not be restored: %w)", why, err)
		}
		return why
	}
	switch s, err := l.readState(ctx); {
	case err == nil && s.live != nil:
		return back(hypervisor.RefuseChangedVM(l.in.VM.Name))
	case err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return err
	}
	for i, m := range l.disks {
		if l.isDiskModifiedSince(ctx, m, l.sentFiles[i]) {
			return back(hypervisor.RefuseChangedVM(l.in.VM.Name))
		}
	}
	if err := l.removeOtherSeeds(ctx, l.in.VM.ID); err != nil {
		return err
	}
	if err := l.devices.RemoveMdevsExcept(string(l.in.VM.ID)); err != nil {
		return err
	}
	return l.filters.RemoveNICFilters(ctx, l.c, l.in.VM.ID, nil)
}

func (l *migrationRun) isDiskModifiedSince(ctx context.Context, m *diskMigration, before hostfile.VolumeFile) bool {
	f, err := l.volumeFile(ctx, l.c, m.from)
	return err == nil && !f.Modified.Equal(before.Modified)
}
