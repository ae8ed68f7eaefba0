package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"quantix/internal/fleet"
)

// A disc's volume descriptors begin at sector 16, each with its identifier at its second byte.
const (
	sectorBytes      = 2048
	firstDescriptor  = 16
	mostDescriptors  = 32
	descriptorNameAt = 1
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
	disc, err := within(ctx, func() (bool, error) { return readDisc(p.path()) })
	switch {
	case err != nil:
		return notPlain(p, err)
	case !disc:
		return fleet.Errorf(fleet.Conflict, "The volume %s is no ISO image: it has neither an ISO 9660 nor a UDF volume descriptor. Choose another.", p.volume)
	}
	return a.checkNoDisk(ctx, p)
}

// readDisc reports whether the file, no link to one, begins like a disc.
func readDisc(path string) (bool, error) {
	f, err := openImage(path, false)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text := make([]byte, mostDescriptors*sectorBytes)
	n, _ := f.ReadAt(text, firstDescriptor*sectorBytes) // a short file has fewer descriptors
	return isDisc(text[:n]), nil
}

// isDisc looks for the descriptor of ISO 9660 or UDF among those that stand before it.
func isDisc(text []byte) bool {
	for ; len(text) >= descriptorNameAt+5; text = text[min(len(text), sectorBytes):] {
		switch string(text[descriptorNameAt : descriptorNameAt+5]) {
		case "CD001", "NSR02", "NSR03":
			return true
		case "BEA01", "BOOT2", "CDW02": // others follow
		default:
			return false
		}
	}
	return false
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
