package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// RenameVolume implements hypervisor.Storage. libvirt cannot rename volumes, so the agent renames the file of a file
// pool's volume.
func (b *Backend) RenameVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "rename", in, (*volumeJob).refuseRename, func(ctx context.Context, w *volumeJob) error {
		from := localVolume{pool: in.Pool, volume: in.Params.Source}
		if !fleet.IsVolumeName(from.volume) || from.volume == pooldir.MarkerFile || from.volume == w.volume {
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be renamed.", in.Params.Source)
		}
		unlock, err := b.volumeLocks.LockExclusive(ctx, from.path())
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
		if _, err := hostfile.WithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, hostfile.UnlinkOldName(from.path(), w.path()) }); err != nil {
			return fmt.Errorf("remove the old name: %w", err)
		}
		w.refreshPool(ctx, w.c, w.pool)
		return nil
	})
}

func (w *volumeJob) refuseRename(context.Context) error {
	return hypervisor.RefuseVolumeRename(w.localVolume.pool.Name)
}

// renameFile renames an unused file. It first records the file's identity, so that a retried job recognizes the file.
func (w *volumeJob) renameFile(ctx context.Context, from localVolume) error {
	f, err := hostfile.WithinLookupTimeout(ctx, func() (hostfile.VolumeFile, error) { return hostfile.ReadVolumeFile(from.path()) })
	switch {
	case hostfile.IsMissing(err):
		return hypervisor.NoVolumeError(from.volume, from.pool.Name)
	case err != nil && (f.ID == (hostfile.ID{}) || errors.Is(err, hostfile.ErrNotRegular)):
		return translateReadError(from, err)
	}
	if fleet.IsRawName(from.volume) != fleet.IsRawName(w.volume) && (err != nil || f.Format != fleet.Raw) {
		return hypervisor.RefuseVolumeSuffix(w.volume, cmp.Or(f.Format, "qcow2"))
	}
	if err := w.checkUnusedVolume(ctx, w.c, from, f.ID); err != nil {
		return err
	}
	word, err := hostfile.WithinLookupTimeout(ctx, func() (string, error) { return inodeOf(from.path()) })
	if err != nil {
		return err
	}
	if err := w.in.RecordFile(word); err != nil {
		return err
	}
	_, err = hostfile.WithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, hostfile.RenameNoReplace(from.path(), w.path()) })
	if errors.Is(err, fs.ErrExist) {
		return hypervisor.RefuseTakenVolumeName(w.volume, w.localVolume.pool.Name)
	}
	return err
}
