package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"quantix/internal/fleet"
)

// checkMedium refuses to put into the VM's drive what is no disc, or somebody's disk. What is in the drive already stays.
func (a *applying) checkMedium(ctx context.Context, old *sighted, in intent) error {
	if in.iso == "" || old != nil && old.kept.iso == in.iso {
		return nil
	}
	p, err := placeOf(*a.in.VM.Spec.ISO, a.in.Pools)
	if err != nil {
		return err
	}
	if err := a.pools.answers(p.pool.Name); err != nil {
		return err
	}
	h, err := within(ctx, func() (header, error) { return readHeader(p.path(), false) })
	if err != nil {
		return notPlain(p, err)
	}
	if err := h.Medium(p.volume); err != nil {
		return err
	}
	return a.checkNoDisk(ctx, p)
}

// notPlain puts into a sentence why a volume that is to be read is not read.
func notPlain(p place, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fleet.Errorf(fleet.NotFound, "The volume %s is not in the pool %s of this host. Choose another.", p.volume, p.pool.Name)
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL), errors.Is(err, errNotRegular):
		return fleet.Errorf(fleet.Conflict, "The volume %s is not a plain file of the pool %s: a link or a device is neither read nor changed. Copy the file itself into the pool.", p.volume, p.pool.Name)
	}
	return fmt.Errorf("read the volume %s: %w", p.volume, err)
}
