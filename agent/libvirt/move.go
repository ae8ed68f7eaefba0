package libvirt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// diskMigration is the state of one MoveDisk call.
type diskMigration struct {
	*Backend
	c          *conn.Conn
	in         hypervisor.MoveDiskWork
	from, to   storage.LocalVolume
	targetPool golibvirt.StoragePool // destination pool; set before the first file is created there
	copiesRaw  bool                  // the disk may be a raw file
	pivoted    bool                  // QEMU received the pivot command, so the guest may have written to the new disk only
}

// pivotSuffix is the suffix that the recorded identity of the copy gets before the agent commands QEMU to pivot to the
// copy.
const pivotSuffix = " changing over"

// MoveDisk implements hypervisor.VMs. Each call reads the progress from the domain, so an interrupted disk migration
// can resume at any point.
func (b *Backend) MoveDisk(ctx context.Context, in hypervisor.MoveDiskWork) error {
	act := "move disk " + in.Params.Disk.Volume
	from, err := storage.LocalVolumeOf(in.Params.Disk, in.Pools)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	to, err := storage.LocalVolumeOf(in.Params.To, in.Pools)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	if !fleet.IsVolumeName(to.Name) || to.Name == pooldir.MarkerFile || filepath.Clean(to.Path()) == filepath.Clean(from.Path()) {
		return fleet.Errorf(fleet.Invalid, "%q is not a valid destination for a disk.", to.Name)
	}
	from.Number = 1 + slices.IndexFunc(in.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == in.Params.Disk })
	unlock, err := b.volumeLocks.LockExclusive(ctx, to.Path())
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	release, err := b.volumeLocks.LockShared(ctx, from.Path())
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer release()
	b.assignedPools.Record(in.Pools)
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		m := &diskMigration{Backend: b, c: c, in: in, from: from, to: to}
		m.in.RecordedFile, m.pivoted = strings.CutSuffix(in.RecordedFile, pivotSuffix)
		defer b.expirePoolCaches(from.Pool)
		defer b.expirePoolCaches(to.Pool)
		return m.runMigration(ctx)
	}))
}

// diskMigrationState is the current state of the domain during a disk migration.
type diskMigrationState struct {
	observedDomain
	persistentXML  *libvirtxml.Domain
	persistentDisk *libvirtxml.DomainDisk // nil: the persistent definition does not have the disk
	liveDisk       *libvirtxml.DomainDisk // nil: the guest is off or does not have the disk
	namesMissing   bool                   // persistentXML has names of disks that the definition in libvirt lacks; only for snapshots
}

func (m *diskMigration) readState(ctx context.Context) (diskMigrationState, error) {
	uuid, err := conn.ParseUUID(m.in.VM.ID)
	if err != nil {
		return diskMigrationState{}, err
	}
	m.domains.invalidate(uuid)
	var out diskMigrationState
	if out.observedDomain, err = m.readObservedDomain(ctx, m.c, m.in.VM.ID); err != nil {
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			err = errNoDomain(m.in.VM.ID)
		}
		return out, err
	}
	if !out.managed {
		return out, errUnmanagedDomain()
	}
	if out.persistentXML, err = conn.ReadDefinition(ctx, m.c, out.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure); err != nil {
		return out, err
	}
	out.persistentDisk = m.migratingDiskIn(out.persistentXML)
	if out.live == nil {
		return out, nil
	}
	running, err := conn.ReadDefinition(ctx, m.c, out.ref, 0)
	if conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) || conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
		out.domain.live = nil // the guest has ended meanwhile
		return out, nil
	}
	if err == nil {
		out.liveDisk = m.migratingDiskIn(running)
	}
	return out, err
}

// migratingDiskIn finds the migrating disk in the definition by the old path, the new path or, failing both, the alias.
// It returns nil if the definition does not have the disk.
func (m *diskMigration) migratingDiskIn(x *libvirtxml.Domain) *libvirtxml.DomainDisk {
	if x.Devices == nil {
		return nil
	}
	disks := x.Devices.Disks
	for _, is := range []func(*libvirtxml.DomainDisk) bool{
		func(d *libvirtxml.DomainDisk) bool {
			return domxml.DiskPathOf(d) == m.to.Path() || domxml.DiskPathOf(d) == m.from.Path()
		},
		func(d *libvirtxml.DomainDisk) bool {
			return domxml.AliasOf(d.Alias) == domxml.DiskAlias(m.to.Ref()) || domxml.AliasOf(d.Alias) == domxml.DiskAlias(m.from.Ref())
		},
	} {
		for i := range disks {
			if is(&disks[i]) {
				return &disks[i]
			}
		}
	}
	return nil
}

// isMirrored reports whether QEMU is copying the disk to the new path.
func (m *diskMigration) isMirrored(d *libvirtxml.DomainDisk) bool {
	return d != nil && d.Mirror != nil && domxml.SourcePath(d.Mirror.Source) == m.to.Path()
}

func (m *diskMigration) runMigration(ctx context.Context) error {
	s, err := m.readState(ctx)
	if err != nil {
		return err
	}
	if err := m.refuseLostGuest(s.observedDomain); err != nil {
		return errors.Join(err, m.finishMoveOfLostGuest(ctx, s))
	}
	switch {
	case s.live != nil && m.isMirrored(s.liveDisk):
		return m.waitForMirror(ctx)
	case s.live != nil && s.liveDisk != nil && domxml.DiskPathOf(s.liveDisk) == m.to.Path(), s.live == nil && m.definitionNamesNewDisk(s):
		return m.finishMove(ctx)
	case m.definitionNamesNewDisk(s) && s.liveDisk != nil && domxml.DiskPathOf(s.liveDisk) == m.from.Path():
		return m.restoreOldDisk(ctx, s)
	case m.pivoted:
		if err := m.refuseUnknownPivotOutcome(ctx); err != nil {
			return err
		}
	}
	if m.in.IsCancelled() {
		return errors.Join(hypervisor.ErrCancelled, m.removeCopies(ctx))
	}
	if m.targetPool, err = m.pools.CheckedPool(ctx, m.c, m.to.Pool); err != nil {
		return err
	}
	if err := m.removeCopies(ctx); err != nil {
		return err
	}
	h, err := m.checkMovable(ctx, s)
	if err != nil {
		return err
	}
	if s.live != nil {
		return m.copyRunningDisk(ctx, s, h)
	}
	return m.copyStoppedDisk(ctx)
}

// definitionNamesNewDisk reports whether the persistent definition names the new disk.
func (m *diskMigration) definitionNamesNewDisk(s diskMigrationState) bool {
	return s.persistentDisk != nil && domxml.DiskPathOf(s.persistentDisk) == m.to.Path()
}

// restoreOldDisk restores the old disk in the definition. It handles a guest that somebody started on the old disk just
// before the definition changed to the copy.
func (m *diskMigration) restoreOldDisk(ctx context.Context, s diskMigrationState) error {
	unlock, err := m.vmLocks.Lock(ctx, m.in.VM.ID)
	if err != nil {
		return err
	}
	back := *m
	back.from, back.to = m.to, m.from
	if s.applied == nil {
		err = hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	} else {
		err = back.redefineDiskOnCopy(ctx, s)
	}
	unlock()
	if err != nil {
		return err
	}
	return m.undoMigration(ctx, errStartedDuringCopy())
}

// refuseUnknownPivotOutcome refuses to remove a copy that may have the guest's last writes. The guest ended during the
// pivot, and libvirt does not report whether QEMU had already pivoted.
func (m *diskMigration) refuseUnknownPivotOutcome(ctx context.Context) error {
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(m.to.Path()) })
	switch {
	case hostfile.IsFileMissingError(err):
		return nil
	case err != nil || file != m.in.RecordedFile:
		return err // removeCopies refuses a file of another origin
	}
	return fleet.Errorf(fleet.Conflict, "The guest ended while QEMU switched from the old disk to the copy, so it is unknown which of the two files has the guest's last writes. "+
		"The VM has the old disk, %s. The copy, %s in pool %s, was not deleted. Compare the files with qemu-img compare, and delete the copy if you do not need it.",
		m.from.Name, m.to.Name, m.to.Pool.Name)
}

// removeCopies removes the files that this job created at the destination. It refuses if the destination has a file
// with the same name that this job did not create.
func (m *diskMigration) removeCopies(ctx context.Context) error {
	if err := m.removeVolume(ctx, m.c, m.to.WithUnfinishedName()); err != nil {
		return err
	}
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(m.to.Path()) })
	switch {
	case hostfile.IsFileMissingError(err):
		return nil
	case err != nil:
		return err
	case m.in.RecordedFile == "" || file != m.in.RecordedFile:
		return hypervisor.RefuseTakenVolumeName(m.to.Name, m.to.Pool.Name)
	}
	id, err := m.to.ReadFileID(ctx)
	if err != nil {
		return err
	}
	users, err := m.volumeUsers(ctx, m.c, m.to, id)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return hypervisor.RefuseUsedVolume(m.to.Name, users[0].domain)
	}
	if err := checkVolumeNotOpen(ctx, m.to); err != nil {
		return err
	}
	return m.removeVolume(ctx, m.c, m.to)
}

// removeOwnCopies removes the files that this job created at the destination, and leaves a file of another origin.
func (m *diskMigration) removeOwnCopies(ctx context.Context) error {
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(m.to.Path()) })
	switch {
	case err != nil && !hostfile.IsFileMissingError(err):
		return err
	case err == nil && (m.in.RecordedFile == "" || file != m.in.RecordedFile):
		return m.removeVolume(ctx, m.c, m.to.WithUnfinishedName())
	}
	return m.removeCopies(ctx)
}

// recordFile records the identity of the copy's file while the file is still empty.
func (m *diskMigration) recordFile(ctx context.Context) error {
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(m.to.WithUnfinishedName().Path()) })
	if err != nil {
		return err
	}
	m.in.RecordedFile = file
	return m.in.RecordFile(file)
}

// undoMigration undoes the migration and returns the error why. If libvirt does not answer or ctx has ended,
// undoMigration changes nothing, because the job is retried.
func (m *diskMigration) undoMigration(ctx context.Context, why error) error {
	if errors.Is(why, hypervisor.ErrUnreachable) || ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*cleanupTimeout)
	defer cancel()
	moved, err := m.abortMirror(ctx)
	switch {
	case moved:
		return m.finishMove(ctx)
	case err == nil && m.pivoted:
		if err := m.refuseUnknownPivotOutcome(ctx); err != nil {
			return err
		}
		fallthrough
	case err == nil:
		err = m.removeCopies(ctx)
	}
	if err != nil {
		m.log.Warn("a reverted disk migration has left files", "vm", m.in.VM.ID, "volume", m.to.Path(), "error", err)
		if !errors.Is(why, hypervisor.ErrCancelled) {
			return fmt.Errorf("%w (the copy could not be deleted: %w)", why, err)
		}
		return err
	}
	return why
}

// abortMirror aborts QEMU's copy. It returns moved if the guest uses the new disk, or used the new disk when it ended.
// If abortMirror sees the guest on the old disk, QEMU has not pivoted.
func (m *diskMigration) abortMirror(ctx context.Context) (moved bool, err error) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		s, err := m.readState(ctx)
		switch {
		case err != nil:
			return false, err
		case s.live == nil:
			return m.definitionNamesNewDisk(s), nil
		case s.liveDisk == nil:
			return false, nil
		case s.liveDisk.Mirror == nil:
			m.pivoted = false
			return domxml.DiskPathOf(s.liveDisk) == m.to.Path(), nil
		case !m.isMirrored(s.liveDisk):
			return false, nil
		}
		err = m.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			return l.DomainBlockJobAbort(s.ref, domxml.DiskTargetOf(s.liveDisk), 0)
		})
		if err != nil && !conn.IsLibvirtError(err) {
			return false, err
		}
		if err != nil {
			switch gone, over, err := m.findEndedMirror(ctx, s); {
			case err != nil || over:
				return over, err
			case gone:
				m.pivoted = false
				return false, nil
			}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}
