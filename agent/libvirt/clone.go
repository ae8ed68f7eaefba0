package libvirt

import (
	"context"
	"errors"
	"os"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// cloneImage copies the image into the partial volume and grows it to the disk's size.
func (a *applyRun) cloneImage(ctx context.Context, pool golibvirt.StoragePool, p localVolume, progress func(percent int)) error {
	source, h, err := a.cloneSource(ctx, *p.image, p.inLibrary)
	if err != nil {
		return err
	}
	if p.size != 0 && p.size < h.Size {
		return fleet.Errorf(fleet.Invalid, "The image %s has %d bytes, more than the disk's %d. Make the disk at least as large.", p.image.volume, h.Size, p.size)
	}
	stop := reportAllocation(p.unfinished().path(), h.Alloc, progress)
	volume, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		return l.StorageVolCreateXMLFrom(pool, volumeXML(p.unfinished().volume, newVolumeSpec{format: p.format, size: h.Size}), source, 0)
	})
	stop()
	if err != nil {
		return err
	}
	if p.size <= h.Size {
		return nil
	}
	err = a.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StorageVolResize(volume, uint64(p.size), 0) })
	if err != nil {
		return errors.Join(err, a.removeVolume(ctx, a.c, p.unfinished()))
	}
	return nil
}

// cloneSource returns the source volume of a clone and its header. It refuses an image whose header refers to other
// files.
func (a *applyRun) cloneSource(ctx context.Context, p localVolume, library bool) (golibvirt.StorageVol, hostfile.ImageHeader, error) {
	none := golibvirt.StorageVol{}
	h, err := a.readImageSource(ctx, a.c, p)
	if err != nil {
		return none, h, err
	}
	if err := h.CheckBootable(p.volume); err != nil {
		return none, h, err
	}
	if err := a.checkReadable(ctx, p, library); err != nil {
		return none, h, err
	}
	pool, err := lookupPool(ctx, a.c, p.pool.Name)
	if err != nil {
		return none, h, err
	}
	// libvirt opens the image in the format that it detected at the pool's last refresh. That format must match the
	// header.
	volume, err := a.checkSameFormat(ctx, a.c, pool, p.volume, h)
	return volume, h, err
}

// volumeFormat returns the pool's volume with that name, and the format that libvirt detected.
func volumeFormat(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, name string) (golibvirt.StorageVol, string, error) {
	var volume golibvirt.StorageVol
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (text string, err error) {
		if volume, err = l.StorageVolLookupByName(pool, name); err == nil {
			text, err = l.StorageVolGetXMLDesc(volume, 0)
		}
		return text, err
	})
	if err != nil {
		return volume, "", err
	}
	var x libvirtxml.StorageVolume
	if err := x.Unmarshal(text); err != nil {
		return volume, "", err
	}
	v := volumeFromLibvirt(x)
	if v.Format == "iso" {
		v.Format = "raw" // libvirt's name for a raw image with an ISO file system
	}
	return volume, v.Format, nil
}

// reportAllocation reports the copy's progress until stop is called. The progress is the space allocated so far
// relative to total, in bytes.
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
				last = max(last, int(min(99, hostfile.Allocated(info, info.Size())*100/total)))
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
