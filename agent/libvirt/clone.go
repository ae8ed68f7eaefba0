package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// cloneImage copies the image into the unfinished volume and grows the volume to the disk's size.
func (a *applyRun) cloneImage(ctx context.Context, pool golibvirt.StoragePool, p storage.LocalVolume, progress func(percent int)) error {
	source, h, err := a.cloneSource(ctx, *p.Image, p.InLibrary)
	if err != nil {
		return err
	}
	if p.Size != 0 && p.Size < h.Size {
		return fleet.Errorf(fleet.Invalid, "The image %s has %d bytes, more than the disk's %d. Make the disk at least as large.", p.Image.Name, h.Size, p.Size)
	}
	stop := reportAllocation(p.WithUnfinishedName().Path(), h.Alloc, progress)
	volume, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		return l.StorageVolCreateXMLFrom(pool, volumeXML(p.WithUnfinishedName().Name, newVolumeSpec{format: p.Format, size: h.Size}), source, 0)
	})
	stop()
	if err != nil {
		return err
	}
	if p.Size <= h.Size {
		return nil
	}
	err = a.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StorageVolResize(volume, uint64(p.Size), 0) })
	if err != nil {
		return errors.Join(err, a.removeVolume(ctx, a.c, p.WithUnfinishedName()))
	}
	return nil
}

// cloneSource returns the source volume of a clone and its header. It refuses an image whose header refers to other
// files.
func (a *applyRun) cloneSource(ctx context.Context, p storage.LocalVolume, library bool) (golibvirt.StorageVol, hostfile.ImageHeader, error) {
	none := golibvirt.StorageVol{}
	h, err := a.readImageSource(ctx, a.c, p)
	if err != nil {
		return none, h, err
	}
	if err := h.CheckBootable(p.Name); err != nil {
		return none, h, err
	}
	if err := a.checkNotUsedAsDisk(ctx, p, library); err != nil {
		return none, h, err
	}
	pool, err := storage.LookupPool(ctx, a.c, p.Pool.Name)
	if err != nil {
		return none, h, err
	}
	// libvirt opens the image in the format that it detected at the pool's last refresh. That format must match the
	// header.
	volume, err := a.checkSameFormat(ctx, a.c, pool, p.Name, h)
	return volume, h, err
}

// reportAllocation reports the progress of a copy until the caller calls stop. The progress is the allocated space as a
// percentage of total, in bytes.
func reportAllocation(path string, total int64, progress func(percent int)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		last := 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if info, err := os.Lstat(path); err == nil && total > 0 {
				last = max(last, int(min(99, hostfile.AllocatedBytes(info, info.Size())*100/total)))
			}
			progress(last)
		}
	}()
	return func() {
		close(done)
		select {
		case <-ended:
		case <-time.After(time.Second): // the storage hangs
		}
	}
}

// createOverlay creates the volume, still under its unfinished name, as a qcow2 overlay of the image. The image and the
// overlay must be in the same pool, so that a check before either file is moved finds the other file.
func (a *applyRun) createOverlay(ctx context.Context, pool golibvirt.StoragePool, p storage.LocalVolume) error {
	if p.Image.Pool.ID != p.Pool.ID {
		return fleet.Errorf(fleet.Invalid, "The image %s is not in the disk's pool, so the image cannot be the disk's backing file. Copy the image to the pool %s first.", p.Image.Name, p.Pool.Name)
	}
	_, h, err := a.cloneSource(ctx, *p.Image, p.InLibrary)
	if err != nil {
		return err
	}
	if p.Size != 0 && p.Size < h.Size {
		return fleet.Errorf(fleet.Invalid, "The image %s has %d bytes, more than the disk's %d. Make the disk at least as large.", p.Image.Name, h.Size, p.Size)
	}
	n := newVolumeSpec{format: "qcow2", size: max(p.Size, h.Size), base: p.Image.Path(), baseFormat: h.Format}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.StorageVolCreateXML(pool, volumeXML(p.WithUnfinishedName().Name, n), 0)
		return err
	})
}

// backedByImage reports whether the disk's image is the only backing file of the existing disk.
func backedByImage(p storage.LocalVolume) bool {
	names := hostfile.ReadReferences(p.Path())
	return p.Image != nil && len(names) == 1 && filepath.Clean(names[0].Path) == p.Image.Path()
}
