package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// cleanupTimeout limits the cleanup after a failed job.
const cleanupTimeout = 20 * time.Second

// volumeJob is a running job for a volume.
type volumeJob struct {
	*Backend
	storage.LocalVolume
	c    *conn.Conn
	in   hypervisor.VolumeWork
	pool golibvirt.StoragePool

	guestData bool // the new volume has the guest data of a raw disk
}

// runVolumeJob runs a volume job under the volume's lock, after it has checked that the pool is active on the recorded
// directory. It calls block for a block pool and do for a file pool.
func (b *Backend) runVolumeJob(ctx context.Context, verb string, in hypervisor.VolumeWork, block func(*volumeJob, context.Context) error, do func(context.Context, *volumeJob) error) error {
	act := verb + " volume " + in.Name
	at, err := volumeOfJob(in)
	if err == nil {
		err = refuseStorageManagedVolumes(in.Pool)
	}
	if err != nil {
		return err
	}
	unlock, err := b.volumeLocks.LockExclusive(ctx, at.WithFinalName().Path())
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		pool, err := b.pools.CheckedPool(ctx, c, in.Pool)
		if err != nil {
			return err
		}
		w := &volumeJob{Backend: b, LocalVolume: at, c: c, in: in, pool: pool}
		defer b.expirePoolCaches(in.Pool)
		if at.IsInBlockPool() {
			return block(w, ctx)
		}
		return hostfile.TranslateNoSpace(in.Pool.Name, do(ctx, w))
	}))
}

// volumeOfJob returns the job's volume. It fails if the volume's name is invalid.
func volumeOfJob(in hypervisor.VolumeWork) (storage.LocalVolume, error) {
	if !fleet.IsVolumeName(in.Name) || in.Name == pooldir.MarkerFile {
		return storage.LocalVolume{}, fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", in.Name)
	}
	return storage.LocalVolumeOf(in.Ref(), []fleet.Pool{in.Pool})
}

// readVolumeFile runs a job that only reads a volume, as returned by volumeOfJob. It holds a shared lock of the volume,
// so other jobs may read the volume at the same time. Before it calls do, it checks that the pool is active on the
// recorded directory.
func (b *Backend) readVolumeFile(ctx context.Context, verb string, volume storage.LocalVolume, in hypervisor.VolumeWork, do func(context.Context, *volumeJob) error) error {
	act := verb + " volume " + in.Name
	unlock, err := b.volumeLocks.LockShared(ctx, volume.Path())
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		pool, err := b.pools.CheckedPool(ctx, c, in.Pool)
		if err != nil {
			return err
		}
		w := &volumeJob{Backend: b, LocalVolume: volume, c: c, in: in, pool: pool}
		return do(ctx, w)
	}))
}

// expirePoolCaches makes the next pool check re-read the pool, and drops cached facts about the pool's files.
func (b *Backend) expirePoolCaches(p fleet.Pool) {
	b.pools.ExpirePool(p.Name)
	if !p.Spec.Kind.Info().FilePool {
		return
	}
	b.diskSizes.ExpireDir(p.Spec.Path)
	b.fileWatches.volumes.ExpireDir(p.Spec.Path)
	b.fileWatches.backingChains.ExpireDir(p.Spec.Path)
}

// CreateVolume implements hypervisor.Storage.
func (b *Backend) CreateVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "create", in, (*volumeJob).createEmptyBlockVolume, func(ctx context.Context, w *volumeJob) error {
		n := newVolumeSpec{format: in.Params.Format, size: in.Params.SizeBytes, full: in.Params.Full}
		if n.format != "qcow2" && n.format != "raw" || n.size <= 0 {
			return fleet.Errorf(fleet.Invalid, "A volume needs the format qcow2 or raw, and a size above 0.")
		}
		return w.createFilledVolume(ctx, func() error {
			note, total := "creating "+w.Name, int64(0)
			if n.full {
				note, total = "allocating "+w.Name, n.size
			}
			stop := reportAllocation(w.WithUnfinishedName().Path(), total, func(percent int) { in.Progress(percent, note) })
			defer stop()
			return w.createUnfinishedVolume(ctx, n)
		})
	})
}

// createUnfinishedVolume makes libvirt create an empty volume under the unfinished name.
func (w *volumeJob) createUnfinishedVolume(ctx context.Context, n newVolumeSpec) error {
	flags := golibvirt.StorageVolCreateFlags(0)
	if n.full && n.format == "qcow2" {
		// With the full size allocated, libvirt makes QEMU allocate the data, too.
		flags = golibvirt.StorageVolCreatePreallocMetadata
	}
	return w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.StorageVolCreateXML(w.pool, volumeXML(w.WithUnfinishedName().Name, n), flags)
		return err
	})
}

// CloneVolume implements hypervisor.Storage.
func (b *Backend) CloneVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "clone", in, (*volumeJob).cloneBlockVolume, func(ctx context.Context, w *volumeJob) error {
		if !fleet.IsVolumeName(in.Params.Source) || in.Params.Source == in.Name {
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be copied.", in.Params.Source)
		}
		from := storage.LocalVolume{Pool: in.Pool, Name: in.Params.Source}
		unlock, err := b.volumeLocks.LockShared(ctx, from.Path())
		if err != nil {
			return err
		}
		defer unlock()
		return w.createFilledVolume(ctx, func() error { return w.copyFile(ctx, from) })
	})
}

// createFilledVolume creates a volume under its unfinished name and renames the file when it is complete. A failure leaves no
// file.
func (w *volumeJob) createFilledVolume(ctx context.Context, fill func() error) error {
	there, err := w.isAlreadyCreated(ctx)
	if err != nil || there {
		return err
	}
	if err := w.removeVolume(ctx, w.c, w.WithUnfinishedName()); err != nil {
		return err
	}
	err = fill()
	if err == nil {
		err = w.renameToFinalName(ctx)
	}
	if err != nil {
		w.removeUnfinishedFile(ctx)
		return err
	}
	w.pools.Refresh(ctx, w.c, w.pool)
	return nil
}

// isAlreadyCreated reports whether this job has already created the volume. It refuses another volume with the same
// name.
func (w *volumeJob) isAlreadyCreated(ctx context.Context) (bool, error) {
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(w.Path()) })
	switch {
	case hostfile.IsFileMissingError(err):
		return false, nil
	case err != nil:
		return false, err
	case w.in.RecordedFile != "" && file == w.in.RecordedFile: // the job was interrupted during the rename, when the file had both names
		_, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) {
			return struct{}{}, hostfile.UnlinkOldName(w.WithUnfinishedName().Path(), w.Path())
		})
		return true, err
	}
	return false, hypervisor.RefuseTakenVolumeName(w.Name, w.LocalVolume.Pool.Name)
}

// renameToFinalName records the file's identity and then renames the file to its final name. So a retried job
// recognizes its own file.
func (w *volumeJob) renameToFinalName(ctx context.Context) error {
	if err := w.checkRawName(ctx); err != nil {
		return err
	}
	file, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(w.WithUnfinishedName().Path()) })
	if err != nil {
		return err
	}
	if err := w.in.RecordFile(file); err != nil {
		return err
	}
	_, err = hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, renameUnfinishedFile(w.LocalVolume) })
	return err
}

// checkRawName refuses a raw disk's name for a file of another format. Nothing probes the format of a file with such a
// name.
func (w *volumeJob) checkRawName(ctx context.Context) error {
	if !fleet.IsRawName(w.Name) || w.guestData {
		return nil
	}
	h, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.ImageHeader, error) { return hostfile.ReadHeader(w.WithUnfinishedName().Path(), false) })
	if err == nil && h.Format != fleet.Raw {
		err = hypervisor.RefuseVolumeSuffix(w.Name, h.Format)
	}
	return err
}

// inodeOf returns the file's inode number as text. The number identifies the file in its directory, also after a
// reboot of the host.
func inodeOf(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(hostfile.IdentityOf(info).Ino, 10), nil
}

// removeUnfinishedFile removes the unfinished file. It only logs a failure, for example while libvirt still writes the
// file. Then the next attempt removes the file, or a user who sees it in the volume list.
func (w *volumeJob) removeUnfinishedFile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := w.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error { return w.removeVolume(ctx, c, w.WithUnfinishedName()) })
	if err != nil {
		w.log.Warn("an unfinished volume cannot be removed yet", "pool", w.in.Pool.Name, "volume", w.WithUnfinishedName().Name, "error", err)
	}
}

// GrowVolume implements hypervisor.Storage.
func (b *Backend) GrowVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "grow", in, (*volumeJob).growBlockVolume, func(ctx context.Context, w *volumeJob) error {
		f, err := w.volumeFile(ctx, w.c, w.LocalVolume)
		switch {
		case err != nil:
			return err
		case f.Size == in.Params.SizeBytes:
			return nil
		case f.Size > in.Params.SizeBytes:
			return hypervisor.RefuseShrink(w.Name, f.Size, in.Params.SizeBytes)
		}
		if err := checkCanGrow(w.Name, f.ImageHeader); err != nil {
			return err
		}
		if err := w.checkUnusedVolume(ctx, w.c, w.LocalVolume, f.ID); err != nil {
			return err
		}
		return w.growVolumeTo(ctx, w.c, w.pool, w.LocalVolume, f, in.Params.SizeBytes)
	})
}

// checkCanGrow refuses volumes that cannot grow.
func checkCanGrow(volume string, h hostfile.ImageHeader) error {
	switch {
	case h.RefersTo != "":
		return fleet.Errorf(fleet.Conflict, "The volume %s refers to %s, so the volume cannot grow. Create an image from the VM that uses this disk, and grow a disk of a VM from that image.", volume, h.RefersTo)
	case h.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The volume %s is encrypted, so the volume cannot grow.", volume)
	case h.Format != "qcow2" && h.Format != "raw":
		return fleet.Errorf(fleet.Conflict, "The volume %s has the format %s; only qcow2 and raw volumes can grow.", volume, h.Format)
	}
	return nil
}

// DeleteVolume implements hypervisor.Storage.
func (b *Backend) DeleteVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "delete", in, (*volumeJob).deleteBlockVolume, func(ctx context.Context, w *volumeJob) error {
		f, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.VolumeFile, error) { return hostfile.ReadVolumeFile(w.Path()) })
		var odd *os.PathError
		switch {
		case hostfile.IsFileMissingError(err):
			return w.deleteDiskSecret(ctx, w.c, w.Ref())
		case errors.As(err, &odd) && errors.Is(err, hostfile.ErrNotRegular):
			return fleet.Errorf(fleet.Conflict, "The volume %s is not a plain file of the pool %s. Links, directories and devices are not deleted.", w.Name, w.LocalVolume.Pool.Name)
		case err != nil && f.ID == (hostfile.ID{}):
			return fmt.Errorf("read the volume: %w", err)
		}
		if err := w.checkUnusedVolume(ctx, w.c, w.LocalVolume, f.ID); err != nil {
			return err
		}
		if err := w.removeVolume(ctx, w.c, w.LocalVolume); err != nil {
			return err
		}
		return w.deleteDiskSecret(ctx, w.c, w.Ref())
	})
}
