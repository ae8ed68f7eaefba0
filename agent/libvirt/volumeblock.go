package libvirt

import (
	"context"
	"errors"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// libvirt creates, changes and deletes the volumes of block pools under their final names. These volumes never get an
// unfinished name, because libvirt cannot rename them. A new volume is empty or an immediate copy by the storage.

// checkBlockDisk reports whether a disk in a block pool exists; false means that the disk was never created. It refuses
// a disk that was created and is now missing.
func (a *applyRun) checkBlockDisk(ctx context.Context, p storage.LocalVolume, made, named bool) (bool, error) {
	missing := func(why string) error {
		return hypervisor.FaultError(hypervisor.MissingDiskFault(p.Number, p.Ref(), p.Pool.Name, conn.Hostname(), why))
	}
	why, err := a.diskUnavailableReason(ctx, a.c, p.Pool.Name, "")
	switch {
	case err != nil:
		return false, fmt.Errorf("disk %d: %w", p.Number, err)
	case why == hypervisor.PoolInactiveReason && !made:
		return false, fleet.Errorf(fleet.Conflict, "The pool %s of disk %d is not active on %s. Start the pool.", p.Pool.Name, p.Number, conn.Hostname())
	case why != "":
		return false, missing(why)
	}
	ref, v, err := a.pools.LookupVolume(ctx, a.c, p)
	switch {
	case err != nil:
		return false, fmt.Errorf("disk %d: %w", p.Number, err)
	case ref == nil && made:
		return false, missing(hypervisor.VolumeMissingReason)
	case ref == nil && p.Preexisting:
		return false, fleet.Errorf(fleet.Conflict, "Disk %d: %s", p.Number, hypervisor.NoVolumeError(p.Name, p.Pool.Name))
	case ref == nil:
		return false, nil
	case named || made || p.Preexisting:
		return true, nil
	case p.Size > v.CapacityBytes: // an earlier attempt was interrupted
		return true, a.growBlockVolumeTo(ctx, a.c, *ref, p.Size)
	}
	return true, nil
}

// blockDiskExists reports whether the volume exists, without any checks.
func (a *applyRun) blockDiskExists(ctx context.Context, p storage.LocalVolume) (bool, error) {
	return a.blockVolumeExists(ctx, a.c, p)
}

// blockVolumeExists reports whether the volume exists in its block pool.
func (b *Backend) blockVolumeExists(ctx context.Context, c *conn.Conn, p storage.LocalVolume) (bool, error) {
	ref, _, err := b.pools.LookupVolume(ctx, c, p)
	return ref != nil, err
}

// createBlockDisk creates an empty disk. Block pools have no images to clone.
func (a *applyRun) createBlockDisk(ctx context.Context, p storage.LocalVolume) error {
	if !p.Pool.Spec.Kind.Info().CreatesVolumes || p.Preexisting {
		return fleet.Errorf(fleet.Conflict, "The pool %s cannot create volumes. Choose an existing volume of the pool as the disk.", p.Pool.Name)
	}
	if p.Image != nil {
		return fleet.Errorf(fleet.Conflict, "A disk in the pool %s must be empty, because images can be copied only into file pools.", p.Pool.Name)
	}
	pool, err := storage.LookupPool(ctx, a.c, p.Pool.Name)
	if err != nil {
		return err
	}
	if err := a.createBlockVolume(ctx, a.c, pool, p.Name, p.Size); err != nil {
		return err
	}
	if err := a.in.RecordDisk(p.Ref()); err != nil {
		return err
	}
	a.pools.ExpirePool(p.Pool.Name)
	a.in.Progress(100, fmt.Sprintf("disk %d is ready", p.Number))
	return nil
}

// createBlockVolume creates an empty volume with all blocks allocated. Thin-provisioned storage still allocates blocks
// only on write.
func (b *Backend) createBlockVolume(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, name string, size int64) error {
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.StorageVolCreateXML(pool, volumeXML(name, newVolumeSpec{format: "raw", size: size, full: true}), 0)
		return err
	})
}

// growBlockVolumeTo grows the volume to size bytes.
func (b *Backend) growBlockVolumeTo(ctx context.Context, c *conn.Conn, v golibvirt.StorageVol, size int64) error {
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StorageVolResize(v, uint64(size), 0) })
}

// refuseStorageManagedVolumes returns an error for a pool with volumes that only the storage can change, such as LUNs.
func refuseStorageManagedVolumes(p fleet.Pool) error {
	if p.Spec.Kind.Info().CreatesVolumes {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The storage of the pool %s defines its volumes. Quantix cannot create, change or delete them.", p.Name)
}

// checkBlockVolumeName refuses the name of an existing volume. made reports that this job has already created the volume.
func (w *volumeJob) checkBlockVolumeName(ctx context.Context) (made bool, err error) {
	there, err := w.blockVolumeExists(ctx, w.c, w.LocalVolume)
	switch {
	case err != nil || !there:
		return false, err
	case w.in.RecordedFile == w.Path():
		return true, nil
	}
	return false, hypervisor.RefuseTakenVolumeName(w.Name, w.LocalVolume.Pool.Name)
}

// createEmptyBlockVolume creates an empty volume in a block pool.
func (w *volumeJob) createEmptyBlockVolume(ctx context.Context) error {
	made, err := w.checkBlockVolumeName(ctx)
	if err != nil || made {
		return err
	}
	if w.in.Params.Format != "raw" || w.in.Params.SizeBytes <= 0 {
		return fleet.Errorf(fleet.Invalid, "A volume of the pool %s must be raw and larger than 0 bytes.", w.LocalVolume.Pool.Name)
	}
	w.in.Progress(0, "creating "+w.Name)
	if err := w.createBlockVolume(ctx, w.c, w.pool, w.Name, w.in.Params.SizeBytes); err != nil {
		return err
	}
	return w.in.RecordFile(w.Path())
}

// cloneBlockVolume makes libvirt copy another volume of the pool. If the agent cannot record the copy, it removes the copy.
func (w *volumeJob) cloneBlockVolume(ctx context.Context) error {
	from := storage.LocalVolume{Pool: w.LocalVolume.Pool, Name: w.in.Params.Source}
	if !fleet.IsVolumeName(from.Name) || from.Name == w.Name {
		return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be copied.", from.Name)
	}
	unlock, err := w.volumeLocks.LockShared(ctx, from.Path())
	if err != nil {
		return err
	}
	defer unlock()
	made, err := w.checkBlockVolumeName(ctx)
	if err != nil || made {
		return err
	}
	source, v, err := w.pools.RequireVolume(ctx, w.c, from)
	if err != nil {
		return err
	}
	id, err := from.ReadFileID(ctx)
	if err == nil {
		err = w.checkNotWrittenByGuest(ctx, w.c, from, id)
	}
	if err != nil {
		return err
	}
	w.in.Progress(0, "copying "+from.Name)
	err = w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.StorageVolCreateXMLFrom(w.pool, volumeXML(w.Name, newVolumeSpec{format: "raw", size: v.CapacityBytes, full: true}), source, 0)
		return err
	})
	if err == nil {
		err = errors.Join(w.checkNotWrittenByGuest(ctx, w.c, from, id), w.in.RecordFile(w.Path()))
		if err != nil {
			err = errors.Join(err, w.removeVolume(ctx, w.c, w.LocalVolume))
		}
	}
	return err
}

// growBlockVolume grows an unused volume of a block pool.
func (w *volumeJob) growBlockVolume(ctx context.Context) error {
	ref, v, err := w.pools.RequireVolume(ctx, w.c, w.LocalVolume)
	switch {
	case err != nil:
		return err
	case v.CapacityBytes == w.in.Params.SizeBytes:
		return nil
	case v.CapacityBytes > w.in.Params.SizeBytes:
		return hypervisor.RefuseShrink(w.Name, v.CapacityBytes, w.in.Params.SizeBytes)
	}
	if err := w.requireUnusedBlockVolume(ctx); err != nil {
		return err
	}
	return w.growBlockVolumeTo(ctx, w.c, ref, w.in.Params.SizeBytes)
}

// wipeBlockVolume makes libvirt overwrite an unused volume with zeros.
func (w *volumeJob) wipeBlockVolume(ctx context.Context) error {
	ref, _, err := w.pools.RequireVolume(ctx, w.c, w.LocalVolume)
	if err == nil {
		err = w.requireUnusedBlockVolume(ctx)
	}
	if err != nil {
		return err
	}
	w.in.Progress(0, "overwriting with zeros: "+w.Name)
	return w.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StorageVolWipe(ref, 0) })
}

// deleteBlockVolume deletes an unused volume of a block pool.
func (w *volumeJob) deleteBlockVolume(ctx context.Context) error {
	there, err := w.blockVolumeExists(ctx, w.c, w.LocalVolume)
	if err != nil || !there {
		return err
	}
	if err := w.requireUnusedBlockVolume(ctx); err != nil {
		return err
	}
	return w.removeVolume(ctx, w.c, w.LocalVolume)
}

// requireUnusedBlockVolume refuses a volume that a domain of this host uses. The storage protects volumes of running guests
// on other hosts.
func (w *volumeJob) requireUnusedBlockVolume(ctx context.Context) error {
	id, err := w.ReadFileID(ctx)
	if err != nil {
		return err
	}
	users, err := w.volumeUsers(ctx, w.c, w.LocalVolume, id)
	if err == nil && len(users) > 0 {
		err = hypervisor.RefuseUsedVolume(w.Name, users[0].domain)
	}
	return err
}

func (w *volumeJob) refuseBlockPool(context.Context) error { return errNotFilePool(w.LocalVolume.Pool) }

func errNotFilePool(p fleet.Pool) error {
	return fleet.Errorf(fleet.Conflict, "The pool %s is not a file pool, and only file pools have images.", p.Name)
}
