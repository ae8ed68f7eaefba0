package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"quantix/agent/hypervisor"
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
		if _, err := withinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, unlinkOldName(from.path(), w.path()) }); err != nil {
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
	f, err := withinLookupTimeout(ctx, func() (volumeFile, error) { return readVolumeFile(from.path()) })
	switch {
	case isFileMissing(err):
		return hypervisor.NoVolumeError(from.volume, from.pool.Name)
	case err != nil && (f.id == (fileID{}) || errors.Is(err, errNotRegular)):
		return translateReadError(from, err)
	}
	if fleet.IsRawName(from.volume) != fleet.IsRawName(w.volume) && (err != nil || f.Format != fleet.Raw) {
		return hypervisor.RefuseVolumeSuffix(w.volume, cmp.Or(f.Format, "qcow2"))
	}
	if err := w.checkUnusedVolume(ctx, w.c, from, f.id); err != nil {
		return err
	}
	word, err := withinLookupTimeout(ctx, func() (string, error) { return inodeOf(from.path()) })
	if err != nil {
		return err
	}
	if err := w.in.RecordFile(word); err != nil {
		return err
	}
	_, err = withinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, renameNoReplace(from.path(), w.path()) })
	if errors.Is(err, fs.ErrExist) {
		return hypervisor.RefuseTakenVolumeName(w.volume, w.localVolume.pool.Name)
	}
	return err
}

// linkNoReplace gives the file the new name, too, and fails if a file with that name exists. The caller must then
// remove the old name with unlinkOldName.
func linkNoReplace(from, to string) error {
	err := os.Link(from, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("the pool's file system cannot rename without replacing an existing file: %w", err)
	}
	return err
}

// unlinkOldName removes a file's old name if the new name refers to the same file. It does not remove a new file under
// the old name.
func unlinkOldName(from, to string) error {
	old, err := os.Lstat(from)
	if isFileMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := os.Lstat(to)
	if err != nil {
		return err
	}
	if identityOf(old) != identityOf(now) {
		return nil
	}
	return os.Remove(from)
}
