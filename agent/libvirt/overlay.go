package libvirt

import (
	"context"
	"path/filepath"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// createOverlay creates the volume, still under its name of unfinished volumes, as an overlay of the image. Both must be
// in the same pool, so that checks before the image or the overlay is moved find the other one.
func (a *applyRun) createOverlay(ctx context.Context, pool golibvirt.StoragePool, p localVolume) error {
	if p.image.pool.ID != p.pool.ID {
		return fleet.Errorf(fleet.Invalid, "The image %s is not in the disk's pool, so the image cannot be the disk's backing file. Copy the image to the pool %s first.", p.image.volume, p.pool.Name)
	}
	_, h, err := a.cloneSource(ctx, *p.image, p.inLibrary)
	if err != nil {
		return err
	}
	if p.size != 0 && p.size < h.Size {
		return fleet.Errorf(fleet.Invalid, "The image %s has %d bytes, more than the disk's %d. Make the disk at least as large.", p.image.volume, h.Size, p.size)
	}
	n := newVolumeSpec{format: "qcow2", size: max(p.size, h.Size), base: p.image.path(), baseFormat: h.Format}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.StorageVolCreateXML(pool, volumeXML(p.unfinished().volume, n), 0)
		return err
	})
}

// backedByImage reports whether the disk's image is the only backing file of the existing disk.
func backedByImage(p localVolume) bool {
	names := hostfile.ReadReferences(p.path())
	return p.image != nil && len(names) == 1 && filepath.Clean(names[0].Path) == p.image.path()
}
