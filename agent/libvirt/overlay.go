package libvirt

import (
	"context"
	"path/filepath"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// createOverlay creates the volume, still under its name of unfinished volumes, as an overlay of the image. Both must be
// in the same pool, so that checks before the image or the overlay is moved find the other one.
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
		_, err := l.StorageVolCreateXML(pool, volumeXML(p.Unfinished().Name, n), 0)
		return err
	})
}

// backedByImage reports whether the disk's image is the only backing file of the existing disk.
func backedByImage(p storage.LocalVolume) bool {
	names := hostfile.ReadReferences(p.Path())
	return p.Image != nil && len(names) == 1 && filepath.Clean(names[0].Path) == p.Image.Path()
}
