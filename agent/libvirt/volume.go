package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// partialSuffix marks an unfinished disk. A disk is created under a name with this suffix and then renamed, so a name
// without the suffix always means a complete disk, even after a crash. The next attempt removes the unfinished file of
// a failed one. The file pools of Quantix are directories, so the agent renames the file; libvirt cannot rename
// volumes.
const partialSuffix = fleet.PartialSuffix

// localVolume is a volume of a pool on this host.
type localVolume struct {
	pool   fleet.Pool
	volume string
	number int          // number of the disk among the VM's disks, from 1
	size   int64        // requested size in bytes; 0: the image's size
	image  *localVolume // the image to clone

	format      string // of the disk's file: see fleet.Disk.FileFormat
	preexisting bool   // the volume existed before the VM: Quantix never creates, changes or deletes it
	shared      bool   // other VMs may use the volume, too
	encrypted   bool   // the volume is encrypted
	inLibrary   bool   // the image is in the library, so it may back other disks, too
	overlay     bool   // the disk is an overlay of the image

	noImage error // why the image is unavailable on this host; matters only until the disk is created
}

// path returns the volume's file. For a block pool it returns the volume's address, which is an absolute path only for
// a device.
func (p localVolume) path() string {
	if kind := blockMappingOf(p.pool.Spec); kind != nil {
		return kind.address(p.pool, p.volume)
	}
	return filepath.Join(p.pool.Spec.Path, p.volume)
}

// isInBlockPool reports whether the volume is in a block pool.
func (p localVolume) isInBlockPool() bool { return blockMappingOf(p.pool.Spec) != nil }

func (p localVolume) ref() fleet.Volref { return fleet.Volref{PoolID: p.pool.ID, Volume: p.volume} }

// unfinished returns the volume under its unfinished name.
func (p localVolume) unfinished() localVolume {
	return localVolume{pool: p.pool, volume: p.volume + partialSuffix}
}

// localVolumeOf returns the volume on this host that ref names. It fails if the volume's name is invalid or the
// volume's pool is not in pools.
func localVolumeOf(ref fleet.Volref, pools []fleet.Pool) (localVolume, error) {
	if ref.Volume == "" || filepath.Base(ref.Volume) != ref.Volume || ref.Volume == "." || ref.Volume == ".." {
		return localVolume{}, fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", ref.Volume)
	}
	for _, p := range pools {
		if p.ID == ref.PoolID {
			return localVolume{pool: p, volume: ref.Volume}, nil
		}
	}
	return localVolume{}, fleet.Errorf(fleet.Conflict, "The pool of the volume %s is not assigned to this host. Assign the pool first.", ref.Volume)
}

// createDisk creates a disk that was never created before. For the progress, i is the disk's index and n the number of
// disks to create.
func (a *applyRun) createDisk(ctx context.Context, p localVolume, i, n int) error {
	if p.noImage != nil {
		return p.noImage
	}
	progress := func(percent int, note string) { a.in.Progress((i*100+percent)/n, note) }
	progress(0, fmt.Sprintf("creating disk %d", p.number))
	if p.isInBlockPool() {
		return a.createBlockDisk(ctx, p)
	}
	pool, err := lookupPool(ctx, a.c, p.pool.Name)
	if err != nil {
		return err
	}
	if err := a.removeVolume(ctx, a.c, p.unfinished()); err != nil {
		return err
	}
	if p.encrypted {
		if err := a.createDiskSecret(ctx, a.c, p); err != nil {
			return fmt.Errorf("create the passphrase of disk %d: %w", p.number, err)
		}
	}
	if p.image == nil {
		blank := newVolumeSpec{format: p.format, size: p.size}
		if p.encrypted {
			blank.secret = string(domxml.DiskSecretUUID(p.ref()))
		}
		err = a.createEmptyVolume(ctx, pool, p, blank)
	} else if p.overlay {
		err = a.createOverlay(ctx, pool, p)
	} else {
		err = a.cloneImage(ctx, pool, p, func(percent int) { progress(percent, fmt.Sprintf("copying %s to disk %d", p.image.volume, p.number)) })
	}
	if err != nil {
		return err
	}
	if _, err = hostfile.WithinContext(ctx, func() (struct{}, error) { return struct{}{}, renameToFinal(p) }); err != nil {
		return err
	}
	if err := a.in.RecordDisk(p.ref()); err != nil {
		return err
	}
	a.refreshPool(ctx, a.c, pool)
	a.diskSizes.ExpireDir(p.pool.Spec.Path)
	progress(100, fmt.Sprintf("disk %d is ready", p.number))
	return nil
}

// maxHashSpeedTries is how often QEMU may fail to measure the host's hash speed.
const maxHashSpeedTries = 5

// createEmptyVolume creates an empty volume. For an encrypted volume, QEMU measures the host's hash speed by CPU time.
// On a busy host the measured time is sometimes 0 and QEMU fails, so createEmptyVolume tries again.
func (a *applyRun) createEmptyVolume(ctx context.Context, pool golibvirt.StoragePool, p localVolume, v newVolumeSpec) error {
	for try := 1; ; try++ {
		_, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
			return l.StorageVolCreateXML(pool, volumeXML(p.unfinished().volume, v), 0)
		})
		if err == nil || v.secret == "" || try == maxHashSpeedTries || !strings.Contains(err.Error(), "accurate CPU usage") {
			return err
		}
		if err := a.removeVolume(ctx, a.c, p.unfinished()); err != nil {
			return err
		}
	}
}

// renameToFinal renames a complete disk to its final name. It fails if a file with the final name exists.
func renameToFinal(p localVolume) error {
	from := p.unfinished().path()
	err := hostfile.RenameNoReplace(from, p.path())
	if errors.Is(err, fs.ErrExist) {
		return fleet.Errorf(fleet.Conflict, "A file named %s appeared in the pool %s while the disk was being created. The file was not changed. Try again to use it as the disk.", p.volume, p.pool.Name)
	}
	if err != nil {
		return err
	}
	return hostfile.UnlinkOldName(from, p.path())
}

// checkExistingDisk refuses an existing volume that is not a self-contained disk, because QEMU would open the files
// that the volume refers to.
func (b *Backend) checkExistingDisk(ctx context.Context, c *conn.Conn, p localVolume, made bool) error {
	h, err := b.volumeFile(ctx, c, p)
	switch {
	case err != nil:
		return err
	case made && p.format == fleet.Raw && !p.preexisting:
		return nil // the content of a raw file is guest data
	case p.preexisting && (h.Format != "raw" || h.Size == 0):
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s has the format %s, or is empty. VMs can share only raw volumes.", p.volume, p.pool.Name, h.Format)
	case p.preexisting:
	case h.Format != p.format:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and has the format %s, not %s. Choose another name for the disk.", p.volume, p.pool.Name, h.Format, p.format)
	case p.overlay && !h.Encrypted && backedByImage(p):
	case p.encrypted && h.Encrypted && h.RefersTo == "":
	case p.encrypted:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and is not encrypted. Choose another name for the disk.", p.volume, p.pool.Name)
	case h.RefersTo != "" || h.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and is not self-contained. Choose another name for the disk.", p.volume, p.pool.Name)
	}
	return nil
}

// removeVolume deletes a volume. It waits while libvirt still writes the volume. A missing volume is no error.
func (b *Backend) removeVolume(ctx context.Context, c *conn.Conn, p localVolume) error {
	if !p.isInBlockPool() {
		there, err := hostfile.Exists(ctx, p.path())
		if err != nil || !there && !b.isBeingCreated(ctx, c, p) {
			return err
		}
	}
	retry := time.NewTicker(500 * time.Millisecond)
	defer retry.Stop()
	pool, err := lookupPool(ctx, c, p.pool.Name)
	for refreshed := false; ; {
		if err != nil {
			return err
		}
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
			v, err := l.StorageVolLookupByName(pool, p.volume)
			if err != nil {
				return err
			}
			return l.StorageVolDelete(v, 0)
		})
		switch {
		case err == nil:
			return nil
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol) && !refreshed:
			b.refreshPool(ctx, c, pool)
			refreshed, err = true, nil
			continue
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol) && p.isInBlockPool():
			return nil
		case !conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) || !strings.Contains(err.Error(), "being allocated"):
			return err
		}
		// An earlier job's copy still runs in libvirtd and cannot be stopped by the agent.
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for an earlier copy to end: %w (%w)", ctx.Err(), err)
		case <-retry.C:
			err = nil
		}
	}
}

// isBeingCreated reports whether libvirt is about to create a file that does not exist yet, for an agent that has just
// died.
func (b *Backend) isBeingCreated(ctx context.Context, c *conn.Conn, p localVolume) bool {
	if p == p.finalName() {
		return false
	}
	pool, err := lookupPool(ctx, c, p.pool.Name)
	if err == nil {
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error { _, err := l.StorageVolLookupByName(pool, p.volume); return err })
	}
	return err == nil
}

// newVolumeSpec describes a volume for libvirt to create.
type newVolumeSpec struct {
	format string
	size   int64
	full   bool // allocate all blocks at creation

	base       string // the backing file; empty: none
	baseFormat string

	secret string // the UUID of the passphrase's secret; empty: not encrypted
}

// volumeXML returns the libvirt definition of a new volume.
func volumeXML(name string, n newVolumeSpec) string {
	x := libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(n.size)},
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes"},
		Target:     &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: n.format}},
	}
	if n.full {
		x.Allocation.Value = x.Capacity.Value
	}
	if n.format == "qcow2" {
		x.Target.Compat = "1.1" // older formats do not support checkpoints
	}
	if n.secret != "" {
		x.Target.Encryption = &libvirtxml.StorageEncryption{Format: "luks", Secret: &libvirtxml.StorageEncryptionSecret{Type: "passphrase", UUID: n.secret}}
	}
	if n.base != "" {
		x.BackingStore = &libvirtxml.StorageVolumeBackingStore{Path: n.base, Format: &libvirtxml.StorageVolumeTargetFormat{Type: n.baseFormat}}
	}
	text, err := x.Marshal()
	if err != nil {
		panic(err) // a structure of plain text and numbers always marshals
	}
	return text
}
