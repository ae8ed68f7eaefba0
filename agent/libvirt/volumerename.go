package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// RenameVolume implements hypervisor.Storage. libvirt cannot rename volumes, so the agent renames the file of a file
// pool's volume.
func (b *Backend) RenameVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "rename", in, (*volumeJob).refuseRename, func(ctx context.Context, w *volumeJob) error {
		from := storage.LocalVolume{Pool: in.Pool, Name: in.Params.Source}
		if !fleet.IsVolumeName(from.Name) || from.Name == pooldir.MarkerFile || from.Name == w.Name {
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be renamed.", in.Params.Source)
		}
		unlock, err := b.volumeLocks.LockExclusive(ctx, from.Path())
		if err != nil {
			return err
		}
		defer unlock()
		there, err := w.isAlreadyCreated(ctx)
		if err != nil {
			return err
		}
		if !there {
			if err := w.renameFile(ctx, from); err != nil {
				return err
			}
		}
		if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, hostfile.UnlinkOldName(from.Path(), w.Path()) }); err != nil {
			return fmt.Errorf("remove the old name: %w", err)
		}
		w.pools.Refresh(ctx, w.c, w.pool)
		return nil
	})
}

func (w *volumeJob) refuseRename(context.Context) error {
	return hypervisor.RefuseVolumeRename(w.LocalVolume.Pool.Name)
}

// renameFile renames an unused file. It first records the file's identity, so that a retried job recognizes the file.
func (w *volumeJob) renameFile(ctx context.Context, from storage.LocalVolume) error {
	f, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.VolumeFile, error) { return hostfile.ReadVolumeFile(from.Path()) })
	switch {
	case hostfile.IsFileMissingError(err):
		return hypervisor.NoVolumeError(from.Name, from.Pool.Name)
	case err != nil && (f.ID == (hostfile.ID{}) || errors.Is(err, hostfile.ErrNotRegular)):
		return translateReadError(from, err)
	}
	if fleet.IsRawName(from.Name) != fleet.IsRawName(w.Name) && (err != nil || f.Format != fleet.Raw) {
		return hypervisor.RefuseVolumeSuffix(w.Name, cmp.Or(f.Format, "qcow2"))
	}
	if err := w.checkUnusedVolume(ctx, w.c, from, f.ID); err != nil {
		return err
	}
	word, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return inodeOf(from.Path()) })
	if err != nil {
		return err
	}
	if err := w.in.RecordFile(word); err != nil {
		return err
	}
	_, err = hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, hostfile.RenameNoReplace(from.Path(), w.Path()) })
	if errors.Is(err, fs.ErrExist) {
		return hypervisor.RefuseTakenVolumeName(w.Name, w.LocalVolume.Pool.Name)
	}
	return err
}
