package libvirt

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// snapshotJob is a running job for a VM's snapshots.
type snapshotJob struct {
	*Backend
	c    *conn.Conn
	in   hypervisor.SnapshotWork
	tree *hypervisor.SnapTree
}

// TakeSnapshot implements hypervisor.Snapshots.
func (b *Backend) TakeSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	return b.runSnapshotJob(ctx, "take a snapshot of "+in.VM.Name, in, (*snapshotJob).takeSnapshot)
}

// RevertSnapshot implements hypervisor.Snapshots.
func (b *Backend) RevertSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	return b.runSnapshotJob(ctx, "revert "+in.VM.Name+" to a snapshot", in, (*snapshotJob).revertToSnapshot)
}

// DeleteSnapshot implements hypervisor.Snapshots.
func (b *Backend) DeleteSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	return b.runSnapshotJob(ctx, "delete a snapshot of "+in.VM.Name, in, (*snapshotJob).deleteSnapshot)
}

// runSnapshotJob finishes or undoes an interrupted job, and then runs do. It does nothing if the tree records that this
// job is done.
func (b *Backend) runSnapshotJob(ctx context.Context, act string, in hypervisor.SnapshotWork, do func(*snapshotJob, context.Context) error) error {
	unlock, err := b.vmLocks.Lock(ctx, in.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	b.assignedPools.Record(in.Pools)
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		w := &snapshotJob{Backend: b, c: c, in: in}
		if uuid, err := conn.ParseUUID(in.VM.ID); err == nil {
			defer b.domains.invalidate(uuid)
		}
		defer func() {
			for _, p := range in.Pools {
				b.expirePoolCaches(p)
			}
		}()
		if w.tree, err = hostfile.RunWithinLookupTimeout(ctx, func() (*hypervisor.SnapTree, error) { return readSnapshotTree(in.VM.ID) }); err != nil {
			return err
		}
		if w.tree == nil {
			w.tree = &hypervisor.SnapTree{VM: in.VM.ID}
		}
		if w.tree.IsJobDone(in.Job) {
			return w.removeTrash(ctx)
		}
		s, err := w.readState(ctx)
		if err != nil {
			return err
		}
		release, err := b.lockSnapshots(in.VM)
		if err != nil {
			return err
		}
		defer release()
		if err := b.refuseLostGuest(s.observedDomain); err != nil {
			return errors.Join(err, w.finishMergeOfLostGuest(ctx, s))
		}
		if err := w.recoverInterruptedJob(ctx); err != nil {
			return err
		}
		if w.tree.IsJobDone(in.Job) {
			return w.removeTrash(ctx)
		}
		if err := w.removeTrash(ctx); err != nil {
			return err
		}
		return do(w, ctx)
	}))
}

// resolveSnapshotVolume changes volume to the file that the disk had at the time of the snapshot. No job changes the files of
// the VM's snapshots until the caller calls release.
func (b *Backend) resolveSnapshotVolume(ctx context.Context, of fleet.SnapshotRef, volume *storage.LocalVolume) (release func(), err error) {
	release, err = b.snapshotLocks.LockShared(ctx, string(of.VMID))
	if err != nil {
		return nil, err
	}
	tree, err := hostfile.RunWithinLookupTimeout(ctx, func() (*hypervisor.SnapTree, error) { return readSnapshotTree(of.VMID) })
	if err == nil {
		switch file := tree.SnapshotFile(of.ID, volume.Ref()); {
		case file == "" || filepath.Dir(file) != filepath.Dir(volume.Path()):
			err = fleet.Errorf(fleet.NotFound, "The host no longer has this snapshot of the disk %s.", volume.Name)
		case tree.Work != nil:
			err = hypervisor.RefuseSnapshotsWithUnfinishedJob()
		default:
			volume.Name = filepath.Base(file)
			return release, nil
		}
	}
	release()
	return nil, err
}

// lockSnapshots locks the files of the VM's snapshots for a change. It fails while another job reads them.
func (b *Backend) lockSnapshots(vm fleet.VM) (release func(), err error) {
	release, _ = b.snapshotLocks.TryLockFile(string(vm.ID), true)
	if release == nil {
		return nil, hypervisor.RefuseSnapshotsBeingCopied(vm.Name)
	}
	return release, nil
}

// save writes the snapshot tree to the disk.
func (w *snapshotJob) save() error { return writeSnapshotTree(w.tree) }

// readState reads the domain's current state. The disks of an adopted VM get their names in persistentXML.
func (w *snapshotJob) readState(ctx context.Context) (diskMigrationState, error) {
	m := &diskMigration{Backend: w.Backend, c: w.c, in: hypervisor.MoveDiskWork{VM: w.in.VM}}
	s, err := m.readState(ctx)
	if err == nil {
		s.namesMissing = w.names(s).NameDisks(s.persistentXML)
	}
	return s, err
}

// names are the names of the domain's devices.
func (w *snapshotJob) names(s diskMigrationState) domxml.DeviceNames {
	return domxml.NewDeviceNames(s.applied, w.assignedPools.Lookup(), s.persistentXML)
}

// writeDiskNames writes the names of an adopted VM's disks into its persistent definition, because a disk with a snapshot
// has another file than the record.
func (w *snapshotJob) writeDiskNames(ctx context.Context, s diskMigrationState) error {
	if !s.namesMissing {
		return nil
	}
	defer w.domains.invalidate(s.ref.UUID)
	return (&diskMigration{Backend: w.Backend, c: w.c}).defineDomain(ctx, s.persistentXML)
}

// runningDefinition returns the running guest's definition, with the names of the disks. It returns nil if the guest is
// off. libvirt does not get the result back.
func (w *snapshotJob) runningDefinition(ctx context.Context, s diskMigrationState) (*libvirtxml.Domain, error) {
	if s.live == nil {
		return nil, nil
	}
	x, err := conn.ReadDefinition(ctx, w.c, s.ref, 0)
	if conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) {
		return nil, nil
	}
	if err == nil {
		w.names(s).NameDisks(x)
	}
	return x, err
}

// domainDiskOf returns the domain's disk for a disk of the spec. It returns nil if there is none.
func domainDiskOf(x *libvirtxml.Domain, ref fleet.Volref) *libvirtxml.DomainDisk {
	if x == nil || x.Devices == nil {
		return nil
	}
	i := slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return domxml.AliasOf(d.Alias) == domxml.DiskAlias(ref) })
	if i < 0 {
		return nil
	}
	return &x.Devices.Disks[i]
}

// compareLayers compares the domain's disks with the layers. all: every disk uses the file of its layer. none: no disk
// uses it.
func compareLayers(x *libvirtxml.Domain, next []hypervisor.SnapLayer) (all, none bool) {
	all, none = true, true
	for _, n := range next {
		d := domainDiskOf(x, n.Disk)
		if d != nil && domxml.DiskPathOf(d) == n.File {
			none = false
		} else {
			all = false
		}
	}
	return all, none
}

// ownVolumePath returns the path of the disk's own volume.
func (w *snapshotJob) ownVolumePath(ref fleet.Volref) string {
	p, err := storage.LocalVolumeOf(ref, w.in.Pools)
	if err != nil {
		return ""
	}
	return p.Path()
}

// checkNoUnmanagedState refuses a VM with a state that Quantix did not create. Otherwise a job would lose disks or
// snapshots that somebody created outside Quantix.
func (w *snapshotJob) checkNoUnmanagedState(ctx context.Context, s diskMigrationState) error {
	refuse := func(format string, args ...any) error { return fleet.Errorf(fleet.Conflict, format, args...) }
	switch {
	case s.transient:
		return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case s.applied == nil:
		return refuse("An older agent made the VM's definition. Edit and save the VM, and then try again.")
	}
	live, err := w.runningDefinition(ctx, s)
	if err != nil {
		return err
	}
	for i, d := range s.applied.Spec.Disks {
		p, err := storage.LocalVolumeOf(d.Ref(), w.in.Pools)
		if err != nil {
			return err
		}
		if p.IsInBlockPool() || d.Existing {
			return refuse("Disk %d (%s) is not a file of a pool, so the disk cannot have snapshots.", i+1, d.Volume)
		}
		if _, err := w.pools.CheckedPool(ctx, w.c, p.Pool); err != nil {
			return err
		}
		want := w.tree.ActiveFile(d.Ref())
		if want == "" {
			want = p.Path()
		}
		for _, x := range []*libvirtxml.Domain{s.persistentXML, live} {
			if x == nil {
				continue
			}
			disk := domainDiskOf(x, d.Ref())
			switch {
			case disk == nil:
				return refuse("Disk %d (%s) is not in the VM's definition on the host. Add the disk to the definition again, or detach the disk, first.", i+1, d.Volume)
			case disk.Mirror != nil:
				return w.diskCopyError(ctx, s, disk, "disk "+strconv.Itoa(i+1)+" ("+d.Volume+")")
			case domxml.DiskPathOf(disk) != want:
				return refuse("The VM uses the file %s instead of %s, for example because of a snapshot or a change on the host. Merge that file first.", filepath.Base(domxml.DiskPathOf(disk)), filepath.Base(want))
			case disk.ReadOnly != nil || disk.Shareable != nil:
				return refuse("Disk %d (%s) is shared or read-only in the VM's definition, so the disk cannot have snapshots.", i+1, d.Volume)
			}
		}
		f, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.VolumeFile, error) { return hostfile.ReadVolumeFile(want) })
		switch {
		case hostfile.IsFileMissingError(err):
			return hypervisor.NoVolumeError(filepath.Base(want), p.Pool.Name)
		case err != nil:
			return translateReadError(p, err)
		case d.FileFormat() != "qcow2":
			return refuse("Disk %d (%s) is a raw file, so the disk cannot have snapshots.", i+1, d.Volume)
		case f.Encrypted:
			return refuse("Disk %d (%s) is encrypted, so the disk cannot have snapshots.", i+1, d.Volume)
		case f.Format != "qcow2":
			return refuse("The file %s of disk %d has the format %s, not qcow2, so the disk cannot have snapshots.", filepath.Base(want), i+1, f.Format)
		}
	}
	for _, a := range w.tree.Active {
		if !specHasVolume(s.applied.Spec, a.Disk) {
			return hypervisor.RefuseRevertWithoutDisk(a.Disk.Volume)
		}
	}
	for i := range s.persistentXML.Devices.Disks {
		d := &s.persistentXML.Devices.Disks[i]
		if name := domxml.PhysicalDiskName(d); name != "" {
			return refuse("The VM has the physical disk %s. Physical disks cannot have snapshots.", name)
		}
		if d.Device != "cdrom" && d.Device != "floppy" && !domxml.HasAliasPrefix(d.Alias, domxml.DiskAliasPrefix) && domxml.AliasOf(d.Alias) != domxml.FirstBootAlias {
			return refuse("Somebody attached the disk %s on the host. Quantix does not manage this disk. Detach the disk first.", domxml.DiskTargetOf(d))
		}
	}
	return w.refuseVirshSnapshotsAndSaves(ctx, s)
}

// refuseVirshSnapshotsAndSaves refuses while the domain has snapshots made with virsh, backup checkpoints or a saved
// memory image. All of these depend on the current disks.
func (w *snapshotJob) refuseVirshSnapshotsAndSaves(ctx context.Context, s diskMigrationState) error {
	others, err := virshSnapshotNames(ctx, w.c, s.ref)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fleet.Errorf(fleet.Conflict, "Somebody made snapshots of the VM with virsh on the host (%s), which would be lost. Delete those snapshots first (virsh snapshot-list, snapshot-delete).", others[0])
	}
	n, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (int32, error) {
		_, n, err := l.DomainListAllCheckpoints(s.ref, 0, 0)
		return n, err
	})
	if err == nil && n > 0 {
		err = fleet.Errorf(fleet.Conflict, "The VM has checkpoints of backups on the host, which would be lost (virsh checkpoint-list). Delete the checkpoints first.")
	}
	if err != nil {
		return err
	}
	saved, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (int32, error) { return l.DomainHasManagedSaveImage(s.ref, 0) })
	if err == nil && saved > 0 {
		err = fleet.Errorf(fleet.Conflict, "The VM's memory is saved on the host (virsh managedsave), and the saved state needs the current disks. Start the VM or remove the saved state first.")
	}
	return err
}

// virshSnapshotNames returns the names of the domain's snapshots that libvirt manages.
func virshSnapshotNames(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) ([]string, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]string, error) {
		n, err := l.DomainSnapshotNum(ref, 0)
		if err != nil || n == 0 {
			return nil, err
		}
		return l.DomainSnapshotListNames(ref, fleet.MaxSnapshots, 0)
	})
}

// redefineDisksOnLayers sets the inactive definition's disks to the files that the VM writes to.
func (w *snapshotJob) redefineDisksOnLayers(ctx context.Context, next []hypervisor.SnapLayer) error {
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	changed := false
	for _, n := range next {
		d := domainDiskOf(s.persistentXML, n.Disk)
		if d == nil {
			return hypervisor.RefuseRevertWithoutDisk(n.Disk.Volume)
		}
		if domxml.DiskPathOf(d) == n.File && d.BackingStore == nil {
			continue
		}
		changed = true
		setDiskFile(d, n.File)
	}
	if !changed {
		return nil
	}
	defer w.domains.invalidate(s.ref.UUID)
	return (&diskMigration{Backend: w.Backend, c: w.c}).defineDomain(ctx, s.persistentXML)
}

// setDiskFile sets the disk's file and removes the backing chain, because libvirt reads the chain from the file's
// header.
func setDiskFile(d *libvirtxml.DomainDisk, file string) {
	d.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: file}}
	d.BackingStore, d.Mirror = nil, nil
}

// recoverInterruptedJob finishes or undoes a job that was interrupted, including an earlier attempt of this job.
func (w *snapshotJob) recoverInterruptedJob(ctx context.Context) error {
	note := w.tree.Work
	if note == nil {
		return nil
	}
	w.log.Info("settling an interrupted snapshot job", "vm", w.in.VM.ID, "kind", note.Kind, "step", note.Step)
	switch note.Kind {
	case hypervisor.SnapTake:
		return w.recoverSnapshot(ctx, note)
	case hypervisor.SnapRevert:
		return w.recoverRevert(ctx, note)
	case hypervisor.SnapMergeKind:
		return w.recoverMerge(ctx, note)
	}
	return fleet.Errorf(fleet.Conflict, "A newer agent has started a snapshot job that this agent does not support. Upgrade this agent.")
}

// isInterruptionError reports whether err comes from an interruption and not from a refusal. After an interruption everything
// stays unchanged, because the job is retried.
func isInterruptionError(ctx context.Context, err error) bool {
	return errors.Is(err, hypervisor.ErrUnreachable) || ctx.Err() != nil
}
