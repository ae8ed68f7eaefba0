package libvirt

import (
	"context"
	"errors"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// copyFile copies another volume byte by byte, preserves holes, and ends as soon as ctx ends. It checks the source
// again at the end, because a guest may have started during the copy.
func (w *volumeJob) copyFile(ctx context.Context, from storage.LocalVolume) error {
	before, err := w.volumeFile(ctx, w.c, from)
	if err != nil {
		return err
	}
	if err := before.CheckClonable(from.Name); err != nil {
		return err
	}
	if err := w.checkNotWrittenByGuest(ctx, w.c, from, before.ID); err != nil {
		return err
	}
	if before.LooksLikeOtherFormat() {
		if w.guestData = true; !fleet.IsRawName(w.Name) {
			return hypervisor.RefuseVolumeSuffix(w.Name, before.ContentFormat)
		}
	} else {
		sound, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.ImageHeader, error) { return hostfile.InspectImage(from.Path()) })
		if err != nil {
			return translateReadError(from, err)
		}
		if err := sound.CheckClonable(from.Name); err != nil {
			return err
		}
	}
	note := "copying " + from.Name
	w.in.Progress(0, note)
	err = hostfile.WaitUnlessHung(ctx, func() error { return w.writeCopy(ctx, from, before, note) })
	if err != nil {
		return err
	}
	if err := w.checkNotWrittenByGuest(ctx, w.c, from, before.ID); err != nil {
		return err
	}
	after, err := w.volumeFile(ctx, w.c, from)
	if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
		err = fleet.Errorf(fleet.Conflict, "The volume %s was written to while it was being copied, so the copy would be incomplete. Try again when nobody writes to the volume.", from.Name)
	}
	return err
}

// writeCopy writes the copy under the unfinished name.
func (w *volumeJob) writeCopy(ctx context.Context, from storage.LocalVolume, was hostfile.VolumeFile, note string) (err error) {
	src, err := hostfile.OpenImage(from.Path(), false)
	if err != nil {
		return translateReadError(from, err)
	}
	defer src.Close()
	dst, room, err := w.createUnfinishedFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if was.Alloc > room {
		return errNoCopySpace(w.LocalVolume, room, was.Alloc)
	}
	_, err = transfer.CopyFile(ctx, dst, src, was.Bytes, nil, w.newMeter(note, was.Bytes))
	return err
}

// newMeter reports the progress of a copy.
func (w *volumeJob) newMeter(note string, total int64) *transfer.Meter {
	return &transfer.Meter{Total: total, Report: func(done, total, rate int64) { w.in.Progress(hypervisor.FormatCopyProgress(note, done, total, rate)) }}
}

// errNoCopySpace is the error for a copy that needs more space than the pool has. free and needed are in bytes.
func errNoCopySpace(to storage.LocalVolume, free, needed int64) error {
	return fleet.Errorf(fleet.Conflict, "The pool %s has %s free on this host, but the copy needs %s.", to.Pool.Name, fleet.FormatBytes(free), fleet.FormatBytes(needed))
}
