package libvirt

import (
	"context"
	"errors"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// ConvertVolume implements hypervisor.Storage. qemu-img runs as the user nobody and reads the source through a file
// descriptor with a fixed format, so it cannot open files that the source names.
func (b *Backend) ConvertVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "convert", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		from := storage.LocalVolume{Pool: in.Pool, Name: in.Params.Source}
		if in.SourcePool != nil {
			from.Pool = *in.SourcePool
		}
		switch {
		case !fleet.IsVolumeName(from.Name) || from.Ref() == in.Ref():
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be converted.", in.Params.Source)
		case in.Params.SourcePool != "" && (in.SourcePool == nil || in.SourcePool.ID != in.Params.SourcePool):
			return hypervisor.NoSourcePoolError()
		case from.IsInBlockPool():
			return errNotFilePool(from.Pool)
		}
		if _, err := b.pools.CheckedPool(ctx, w.c, from.Pool); err != nil {
			return err
		}
		// The lock is exclusive, because the conversion changes the file's group: qemu-img runs with the group nobody.
		unlock, err := b.volumeLocks.LockExclusive(ctx, from.Path())
		if err != nil {
			return err
		}
		defer unlock()
		return w.createFilledVolume(ctx, func() error { return w.convertSource(ctx, from) })
	})
}

// convertSource converts the source to qcow2 and fails if the source changes meanwhile.
func (w *volumeJob) convertSource(ctx context.Context, from storage.LocalVolume) error {
	before, err := w.volumeFile(ctx, w.c, from)
	if err != nil {
		return err
	}
	if err := w.refuseFileOfRunningGuest(ctx, from, before.ID); err != nil {
		return err
	}
	_, err = hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, w.convertFile(ctx, from, before) })
	if err != nil {
		return err
	}
	after, err := w.volumeFile(ctx, w.c, from)
	if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
		err = hypervisor.RefuseChangedVolume(from.Name)
	}
	return err
}

// convertFile checks the source and converts it into the unfinished volume.
func (w *volumeJob) convertFile(ctx context.Context, from storage.LocalVolume, is hostfile.VolumeFile) error {
	f, err := hostfile.OpenImage(from.Path(), false)
	if err != nil {
		return translateReadError(from, err)
	}
	defer f.Close()
	o := w.in.Params
	at, size, facts, err := image.FindMember(f, is.Bytes, from.Name, o.Member)
	if err != nil {
		return err
	}
	if o.Member != "" {
		err := image.VerifyMemberChecksum(ctx, f, is.Bytes, o.Member, func(done int64) {
			w.in.Progress(int(float64(done)/float64(size+1)*10), "verifying "+o.Member)
		})
		if err != nil {
			return err
		}
	}
	w.in.Progress(10, "reading the image's format")
	part := image.DiskPart{File: f, Offset: at, Size: size, Format: facts.Format}
	if facts.Format == "raw" {
		facts.Size = (facts.Size + 511) / 512 * 512
	}
	need, err := part.Inspect(ctx, facts)
	if err != nil {
		return err
	}
	if err := w.createUnfinishedVolume(ctx, newVolumeSpec{format: "qcow2", size: facts.Size}); err != nil {
		return err
	}
	return w.writeConvertedDisk(ctx, part, facts, need)
}

// writeConvertedDisk writes the disk into the empty, unfinished volume.
func (w *volumeJob) writeConvertedDisk(ctx context.Context, part image.DiskPart, facts image.Facts, need int64) (err error) {
	to, err := hostfile.OpenToWrite(w.WithUnfinishedName().Path())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	room, err := usableBytes(to)
	if err != nil {
		return err
	}
	if need > room {
		return errNoCopySpace(w.LocalVolume, room, need)
	}
	const overhead = 1 << 30 // space for the tables of qcow2, with a margin
	err = part.Convert(ctx, to, facts.Size+facts.Size/100+overhead, func(percent int) {
		w.in.Progress(10+percent*85/100, "converting from "+part.Format)
	})
	if err != nil {
		return err
	}
	made, err := hostfile.ReadHeader(w.WithUnfinishedName().Path(), false)
	switch {
	case err != nil:
		return err
	case made.Format != "qcow2" || made.RefersTo != "" || made.Size != facts.Size:
		return fmt.Errorf("qemu-img wrote a %s image of %d bytes for a disk of %d bytes", made.Format, made.Size, facts.Size)
	}
	return to.Sync()
}
