package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// WipeVolume implements hypervisor.Storage. It overwrites all data of the file, including qcow2 metadata, with zeros
// and then creates an empty qcow2 volume. It ends as soon as ctx ends; the data overwritten until then is lost.
func (b *Backend) WipeVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "wipe", in, (*volumeJob).wipeBlockVolume, func(ctx context.Context, w *volumeJob) error {
		f, err := w.volumeFile(ctx, w.c, w.LocalVolume)
		if err != nil {
			return err
		}
		if f.RefersTo != "" {
			return fleet.Errorf(fleet.Conflict, "The volume %s refers to %s, so only a part of its data would be wiped. Delete the volume instead.", w.Name, f.RefersTo)
		}
		if err := w.checkUnusedVolume(ctx, w.c, w.LocalVolume, f.ID); err != nil {
			return err
		}
		if f.Format == "qcow2" && f.Encrypted {
			return fleet.Errorf(fleet.Conflict, "The volume %s is encrypted, but a wiped volume would not be encrypted. Delete the volume instead.", w.Name)
		}
		if f.Format != fleet.Raw {
			if _, err := w.checkSameFormat(ctx, w.c, w.pool, w.Name, f.ImageHeader); err != nil {
				return err
			}
		}
		in.Progress(0, "overwriting with zeros: "+w.Name)
		if err := hostfile.WaitUnlessHung(ctx, func() error { return w.overwriteWithZeros(ctx, f) }); err != nil {
			return err
		}
		if f.Format != "qcow2" {
			return nil
		}
		return w.recreateEmptyVolume(ctx, f)
	})
}

// overwriteWithZeros overwrites the file that was checked. It refuses another file at the same path.
func (w *volumeJob) overwriteWithZeros(ctx context.Context, was hostfile.VolumeFile) (err error) {
	root, err := os.OpenRoot(w.LocalVolume.Pool.Spec.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	f, err := root.OpenFile(w.Name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || hostfile.IdentityOf(info) != was.ID {
		return fleet.Errorf(fleet.Conflict, "Another file has replaced the volume %s. Nothing was written. Check the pool, and try again.", w.Name)
	}
	return transfer.ZeroFile(ctx, f, info.Size(), w.newMeter("overwriting with zeros: "+w.Name, was.Alloc))
}

// recreateEmptyVolume replaces the wiped file by an empty volume. It fails if another file has replaced the wiped one.
func (w *volumeJob) recreateEmptyVolume(ctx context.Context, was hostfile.VolumeFile) error {
	if err := w.removeVolume(ctx, w.c, w.WithUnfinishedName()); err != nil {
		return err
	}
	err := w.createUnfinishedVolume(ctx, newVolumeSpec{format: was.Format, size: was.Size})
	if err == nil {
		_, err = hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) {
			if info, err := os.Lstat(w.Path()); err != nil && !hostfile.IsFileMissingError(err) || err == nil && hostfile.IdentityOf(info) != was.ID {
				return struct{}{}, errors.Join(err, fleet.Errorf(fleet.Conflict, "Another file replaced the volume %s during the job. That file was not changed.", w.Name))
			}
			return struct{}{}, os.Rename(w.WithUnfinishedName().Path(), w.Path())
		})
	}
	if err != nil {
		w.removeUnfinishedFile(ctx)
		return fmt.Errorf("all data of the volume is wiped, but the empty volume was not created: %w", err)
	}
	w.pools.Refresh(ctx, w.c, w.pool)
	return nil
}
