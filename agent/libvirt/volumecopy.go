package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// HashVolume implements hypervisor.Storage. Other jobs may read the file at the same time.
func (b *Backend) HashVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	at, err := volumeOfJob(in)
	if err != nil {
		return err
	}
	return b.readVolumeFile(ctx, "verify", at, in, func(ctx context.Context, w *volumeJob) error {
		if at.IsInBlockPool() {
			return errNotFilePool(in.Pool)
		}
		defer b.expirePoolCaches(in.Pool)
		h, err := w.readAndHash(ctx, at, "reading "+in.Name, nil)
		if err != nil {
			return err
		}
		if err := w.checkValidImage(ctx, at); err != nil {
			return err
		}
		if err := in.RecordChecksums(h); err != nil {
			return err
		}
		if want, has := strings.CutPrefix(in.Params.Checksum, "sha256:"); has && want != h.SHA256 {
			return hypervisor.VolumeDiffersFromImageError(in.Name, h.SHA256, want)
		}
		return nil
	})
}

// checkValidImage refuses a file that cannot be a VM's disk. It uses Quantix's own reader, because qemu-img as nobody
// would need another group on the file while guests may use it.
func (w *volumeJob) checkValidImage(ctx context.Context, at storage.LocalVolume) error {
	h, err := w.readImageSource(ctx, w.c, at)
	if err != nil {
		return err
	}
	return h.CheckClonable(at.Name)
}

// readAndHash reads a volume to its end and hashes it. It also writes the bytes to dst, unless dst is nil. It fails if
// the volume changes during the read.
func (w *volumeJob) readAndHash(ctx context.Context, from storage.LocalVolume, note string, dst io.Writer) (hypervisor.VolumeChecksum, error) {
	none := hypervisor.VolumeChecksum{}
	before, err := w.volumeFile(ctx, w.c, from)
	if err != nil {
		return none, err
	}
	if err := w.refuseFileOfRunningGuest(ctx, from, before.ID); err != nil {
		return none, err
	}
	stamped, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.Version, error) { return hostfile.VersionAt(from.Path()), nil })
	if err != nil {
		return none, err
	}
	sum := sha256.New()
	id, err := hostfile.RunWithinContext(ctx, func() (hostfile.Version, error) { return w.hashFile(ctx, from, before.Bytes, note, sum, dst) })
	if err != nil {
		return none, err
	}
	if err := w.refuseFileOfRunningGuest(ctx, from, before.ID); err != nil {
		return none, err
	}
	after, err := w.volumeFile(ctx, w.c, from)
	switch {
	case err != nil:
		return none, err
	case after.ID != before.ID || after.ID != id.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified) || id.Bytes != after.Bytes:
		return none, hypervisor.RefuseChangedVolume(from.Name)
	}
	return hypervisor.VolumeChecksum{Ref: from.Ref(), SHA256: hex.EncodeToString(sum.Sum(nil)), FileStamp: hostfile.Version{ID: after.ID, Modified: after.Modified, Bytes: after.Bytes, Changed: stamped.Changed}.Stamp()}, nil
}

// hashFile hashes the file that it opened, even if another file gets the path during the read.
func (w *volumeJob) hashFile(ctx context.Context, from storage.LocalVolume, total int64, note string, sum hash.Hash, to io.Writer) (hostfile.Version, error) {
	f, err := hostfile.OpenImage(from.Path(), false)
	if err != nil {
		return hostfile.Version{}, translateReadError(from, err)
	}
	defer f.Close()
	piece, done, reported := make([]byte, hostfile.ReadBlockBytes), int64(0), time.Now()
	for ctx.Err() == nil {
		n, err := f.Read(piece)
		sum.Write(piece[:n])
		if to != nil && n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return hostfile.Version{}, err
			}
		}
		done += int64(n)
		if now := time.Now(); now.Sub(reported) > 500*time.Millisecond {
			reported = now
			percent, text := hypervisor.FormatDownloadProgress(done, total, 0)
			w.in.Progress(percent, note+": "+text)
		}
		if errors.Is(err, io.EOF) {
			info, err := f.Stat()
			if err != nil {
				return hostfile.Version{}, err
			}
			return hostfile.Version{ID: hostfile.IdentityOf(info), Modified: info.ModTime(), Bytes: info.Size(), Changed: hostfile.ChangedAt(info)}, nil
		}
		if err != nil {
			return hostfile.Version{}, fmt.Errorf("read the volume %s: %w", from.Name, err)
		}
	}
	return hostfile.Version{}, ctx.Err()
}

// refuseFileOfRunningGuest refuses a file that a running guest may write to. Backing files are accepted, because guests
// only read them.
func (w *volumeJob) refuseFileOfRunningGuest(ctx context.Context, p storage.LocalVolume, id hostfile.ID) error {
	users, err := w.volumeUsers(ctx, w.c, p, id)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.running && u.usage == domxml.UsedAsDisk {
			return hypervisor.RefuseVolumeOfRunningVM(p.Name, u.domain)
		}
	}
	return nil
}

// CopyVolume implements hypervisor.Storage.
func (b *Backend) CopyVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "copy", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		from := storage.LocalVolume{Pool: in.Pool, Name: in.Params.Source}
		if in.SourcePool != nil {
			from.Pool = *in.SourcePool
		}
		if from.IsInBlockPool() {
			return errNotFilePool(from.Pool)
		}
		switch {
		case !fleet.IsVolumeName(from.Name) || from.Ref() == in.Ref():
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be copied.", in.Params.Source)
		case in.Params.SourcePool != "" && (in.SourcePool == nil || in.SourcePool.ID != in.Params.SourcePool):
			return hypervisor.NoSourcePoolError()
		}
		pool, err := b.pools.CheckedPool(ctx, w.c, from.Pool)
		if err != nil {
			return err
		}
		if of := in.Params.Snapshot; of != nil {
			release, err := b.resolveSnapshotVolume(ctx, *of, &from)
			if err != nil {
				return err
			}
			defer release()
		}
		unlock, err := b.volumeLocks.LockShared(ctx, from.Path())
		if err != nil {
			return err
		}
		defer unlock()
		defer b.expirePoolCaches(from.Pool) // the copy also yields the checksum of the source
		if in.Params.Flatten {
			return w.flattenDisk(ctx, from, pool)
		}
		return w.copyVolume(ctx, from)
	})
}

// copyVolume copies the source byte by byte and reports the checksums of the source and of the copy.
func (w *volumeJob) copyVolume(ctx context.Context, from storage.LocalVolume) error {
	there, err := w.isAlreadyCreated(ctx)
	if err != nil || there {
		return err
	}
	var source hypervisor.VolumeChecksum
	err = w.createFilledVolume(ctx, func() error {
		source, err = w.copyIntoUnfinishedFile(ctx, from)
		return err
	})
	if err != nil {
		return err
	}
	own := source
	own.Ref = w.Ref()
	id, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.Version, error) { return hostfile.VersionAt(w.Path()), nil })
	if err != nil {
		return err
	}
	own.FileStamp = id.Stamp()
	return w.in.RecordChecksums(source, own)
}

// copyIntoUnfinishedFile copies the source into the unfinished file and returns the checksum of the source.
func (w *volumeJob) copyIntoUnfinishedFile(ctx context.Context, from storage.LocalVolume) (hypervisor.VolumeChecksum, error) {
	sound, err := w.readImageSource(ctx, w.c, from)
	if err != nil {
		return hypervisor.VolumeChecksum{}, err
	}
	if err := sound.CheckClonable(from.Name); err != nil {
		return hypervisor.VolumeChecksum{}, err
	}
	type opened struct {
		f    *os.File
		room int64
	}
	o, err := hostfile.RunWithinLookupTimeout(ctx, func() (o opened, err error) { o.f, o.room, err = w.createUnfinishedFile(); return o, err })
	if err != nil {
		return hypervisor.VolumeChecksum{}, err
	}
	if sound.Alloc > o.room {
		return hypervisor.VolumeChecksum{}, errors.Join(errNoCopySpace(w.LocalVolume, o.room, sound.Alloc), o.f.Close())
	}
	to := &hostfile.SparseFile{WithheldHeadFile: hostfile.WithheldHeadFile{File: o.f}}
	h, err := w.readAndHash(ctx, from, "copying "+from.Name, to)
	if want, has := strings.CutPrefix(w.in.Params.Checksum, "sha256:"); err == nil && has && want != h.SHA256 {
		err = hypervisor.RefuseDifferentCopy(from.Name, h.SHA256, want)
	}
	if ctx.Err() != nil {
		return h, errors.Join(ctx.Err(), err) // the file may hang on the storage, so it is abandoned
	}
	if err == nil {
		_, err = hostfile.RunWithinContext(ctx, func() (struct{}, error) {
			return struct{}{}, errors.Join(to.File.Truncate(to.Bytes), to.WriteHead(), to.File.Sync())
		})
	}
	return h, errors.Join(err, o.f.Close())
}

// flattenDisk makes libvirt copy a disk and its backing chain into one image, and then reads the image for its
// checksum.
func (w *volumeJob) flattenDisk(ctx context.Context, from storage.LocalVolume, pool golibvirt.StoragePool) error {
	if there, err := w.isAlreadyCreated(ctx); err != nil || there {
		return err
	}
	err := w.createFilledVolume(ctx, func() error {
		before, err := w.volumeFile(ctx, w.c, from)
		if err != nil {
			return err
		}
		if err := w.refuseFileOfRunningGuest(ctx, from, before.ID); err != nil {
			return err
		}
		if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, checkDiskChain(from, before) }); err != nil {
			return err
		}
		source, err := w.checkSameFormat(ctx, w.c, pool, from.Name, before.ImageHeader)
		if err != nil {
			return err
		}
		stop := reportAllocation(w.WithUnfinishedName().Path(), before.Alloc, func(percent int) { w.in.Progress(percent, "copying "+from.Name) })
		err = w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.StorageVolCreateXMLFrom(w.pool, volumeXML(w.WithUnfinishedName().Name, newVolumeSpec{format: "qcow2", size: before.Size}), source, 0)
			return err
		})
		stop()
		if err != nil {
			return err
		}
		if err := w.refuseFileOfRunningGuest(ctx, from, before.ID); err != nil {
			return err
		}
		after, err := w.volumeFile(ctx, w.c, from)
		if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
			err = hypervisor.RefuseChangedVolume(from.Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	h, err := w.readAndHash(ctx, w.LocalVolume, "reading "+w.Name, nil)
	if err != nil {
		return err
	}
	if err := w.checkValidImage(ctx, w.LocalVolume); err != nil {
		return err
	}
	return w.in.RecordChecksums(h)
}

// maxChainDepth limits the number of files in a disk's backing chain.
const maxChainDepth = 64

// checkDiskChain refuses a disk that is not qcow2 or has backing files outside its own pool.
func checkDiskChain(of storage.LocalVolume, f hostfile.VolumeFile) error {
	if f.Format != "qcow2" {
		return errInvalidDisk(of)
	}
	return checkChain(of, of.Path(), 0)
}

// errInvalidDisk is the error for a disk with an invalid file in its backing chain.
func errInvalidDisk(of storage.LocalVolume) error {
	return fleet.Errorf(fleet.Conflict, "The disk %s or one of its backing files is not a valid qcow2 image, so no image can be created from the disk.", of.Name)
}

// checkChain checks the file at path and, recursively, the backing files.
func checkChain(of storage.LocalVolume, path string, depth int) error {
	h, err := hostfile.ReadHeader(path, false)
	switch {
	case err != nil:
		return translateReadError(storage.LocalVolume{Pool: of.Pool, Name: filepath.Base(path)}, err)
	case h.Encrypted || h.HeaderFault != "" || h.Format != "qcow2" && h.Format != "raw":
		return errInvalidDisk(of)
	case h.RefersTo == "":
		return nil
	}
	names := hostfile.ReadReferences(path)
	if depth >= maxChainDepth || len(names) != 1 || filepath.Dir(filepath.Clean(names[0].Path)) != filepath.Clean(of.Pool.Spec.Path) {
		return fleet.Errorf(fleet.Conflict, "The disk %s is backed by %s, which is not a file of the pool %s, so no image can be created from the disk.", of.Name, h.RefersTo, of.Pool.Name)
	}
	if names[0].Opaque {
		return nil // the content of a raw file names no other files
	}
	return checkChain(of, filepath.Clean(names[0].Path), depth+1)
}
