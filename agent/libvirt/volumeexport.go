package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

// ExportVolume implements hypervisor.Storage. It writes the archive under the unfinished name, and the archive's head
// last. It first packs each disk into an unnamed file, so that an interrupted export leaves no file behind.
func (b *Backend) ExportVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "export", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		e := in.Params.Export
		if e == nil || len(e.Disks) != len(e.Appliance.Disks) || len(e.Disks) == 0 || len(e.Disks) > fleet.MaxDisks {
			return fleet.Errorf(fleet.Invalid, "The export job does not describe a valid appliance.")
		}
		x := exportJob{volumeJob: w, order: *e}
		x.order.Appliance.Disks = slices.Clone(e.Appliance.Disks)
		defer x.unlock()
		for i, ref := range e.Disks {
			if err := x.lockDisk(ctx, i, ref); err != nil {
				return fmt.Errorf("disk %d: %w", i+1, err)
			}
		}
		return w.createFilledVolume(ctx, func() error { return x.writeArchiveFile(ctx) })
	})
}

// exportJob is a running export.
type exportJob struct {
	*volumeJob
	locks.Unlockers
	order       fleet.ExportParams
	disks       []storage.LocalVolume
	filesBefore []hostfile.VolumeFile
	layers      []*image.ChainFile
}

func (x *exportJob) unlock() { x.Unlockers.Unlock() }

// lockDisk locks a disk against changes and reads its backing chain.
func (x *exportJob) lockDisk(ctx context.Context, i int, ref fleet.Volref) error {
	p, err := storage.LocalVolumeOf(ref, append(slices.Clone(x.in.Pools), x.in.Pool))
	switch {
	case err != nil:
		return err
	case p.IsInBlockPool():
		return errNotFilePool(p.Pool)
	case !fleet.IsVolumeName(x.order.Appliance.Disks[i].Member) || p.Ref() == x.in.Ref():
		return fleet.Errorf(fleet.Invalid, "%q is not a valid name of a disk in an archive.", x.order.Appliance.Disks[i].Member)
	}
	if _, err := x.pools.CheckedPool(ctx, x.c, p.Pool); err != nil {
		return err
	}
	unlock, err := x.volumeLocks.LockShared(ctx, p.Path())
	if err != nil {
		return err
	}
	x.Unlockers = append(x.Unlockers, unlock)
	f, err := x.volumeFile(ctx, x.c, p)
	if err != nil {
		return err
	}
	if err := x.refuseFileOfRunningGuest(ctx, p, f.ID); err != nil {
		return err
	}
	layer, err := hostfile.RunWithinLookupTimeout(ctx, func() (*image.ChainFile, error) {
		if err := checkDiskChain(p, f); err != nil {
			return nil, err
		}
		return chainLayers(p.Path(), f.Format), nil
	})
	x.disks, x.filesBefore, x.layers = append(x.disks, p), append(x.filesBefore, f), append(x.layers, layer)
	return err
}

// chainLayers returns the files of a backing chain that checkChain has accepted.
func chainLayers(path, format string) *image.ChainFile {
	l := &image.ChainFile{Path: path, Format: format}
	if format != "qcow2" {
		return l
	}
	for _, below := range hostfile.ReadReferences(path) {
		at := filepath.Clean(below.Path)
		as := "raw"
		if h, err := hostfile.ReadHeader(at, false); err == nil && !below.Opaque {
			as = h.Format
		}
		l.Backing = chainLayers(at, as)
	}
	return l
}

// writeArchiveFile writes the archive.
func (x *exportJob) writeArchiveFile(ctx context.Context) error {
	var sum, largest int64
	for i, l := range x.layers {
		n, err := l.MeasureQcow2(ctx)
		if err != nil {
			return fmt.Errorf("disk %d: %w", i+1, err)
		}
		sum, largest = sum+n, max(largest, n)
	}
	to, room, err := x.createUnfinishedFile()
	if err != nil {
		return err
	}
	if need := sum + largest; need > room { // the disk being packed is stored twice
		return errors.Join(errNoCopySpace(x.LocalVolume, room, need), to.Close())
	}
	_, err = hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, errors.Join(x.writeArchive(ctx, to), to.Close()) })
	if err != nil {
		return err
	}
	for i, p := range x.disks { // somebody may have started the VM during the export
		was := x.filesBefore[i]
		if err := x.refuseFileOfRunningGuest(ctx, p, was.ID); err != nil {
			return err
		}
		now, err := x.volumeFile(ctx, x.c, p)
		if err == nil && (now.ID != was.ID || now.Bytes != was.Bytes || !now.Modified.Equal(was.Modified)) {
			err = hypervisor.RefuseChangedVolume(p.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeArchive writes all disks and then the head into the archive.
func (x *exportJob) writeArchive(ctx context.Context, to *os.File) error {
	a := x.order.Appliance
	var sums []string
	plan := ovf.NewArchivePlan(a)
	for i := range a.Disks {
		size, digest, err := x.packDisk(ctx, to, plan, i)
		if err != nil {
			return fmt.Errorf("disk %d: %w", i+1, err)
		}
		plan.AddFile(size)
		a.Disks[i].FileBytes, a.Disks[i].SizeBytes = size, x.filesBefore[i].Size
		sums = append(sums, digest)
	}
	if err := to.Truncate(plan.Size()); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return errors.Join(plan.WriteHead(to, a, sums), to.Sync())
}

// packDisk packs one disk and copies it into the archive.
func (x *exportJob) packDisk(ctx context.Context, to *os.File, plan ovf.ArchivePlan, i int) (size int64, digest string, err error) {
	member := x.order.Appliance.Disks[i].Member
	progress := func(percent int, note string) {
		x.in.Progress((100*i+percent)/len(x.layers), fmt.Sprintf("%s disk %d of %d", note, i+1, len(x.layers)))
	}
	packed, err := unnamedFile(x.LocalVolume.Pool.Spec.Path)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, packed.Close()) }()
	if err := x.layers[i].WriteVMDK(ctx, packed, member, func(percent int) { progress(percent*8/10, "packing") }); err != nil {
		return 0, "", err
	}
	if size, err = packed.Seek(0, io.SeekEnd); err != nil {
		return 0, "", err
	}
	header, data := plan.NextOffsets()
	text, err := ovf.TarHeader(member, size)
	if err != nil {
		return 0, "", err
	}
	if _, err := to.WriteAt(text, header); err != nil {
		return 0, "", err
	}
	sum, piece := sha256.New(), make([]byte, hostfile.ReadBlockBytes)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		n, err := packed.ReadAt(piece[:min(int64(len(piece)), size-at)], at)
		if ended := errors.Is(err, io.EOF) && at+int64(n) == size; err != nil && !ended {
			return 0, "", err
		}
		sum.Write(piece[:n])
		if _, err := to.WriteAt(piece[:n], data+at); err != nil {
			return 0, "", err
		}
		at += int64(n)
		progress(80+int(20*at/size), "writing")
	}
	return size, hex.EncodeToString(sum.Sum(nil)), nil
}

// unnamedFile returns a new, unnamed file on the directory's file system. The kernel deletes the file when it is
// closed.
func unnamedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".quantix-export-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
