package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// createDisk creates a disk that was never created before. For the progress, i is the disk's index and n the number of
// disks to create.
func (a *applyRun) createDisk(ctx context.Context, p storage.LocalVolume, i, n int) error {
	if p.NoImage != nil {
		return p.NoImage
	}
	progress := func(percent int, note string) { a.in.Progress((i*100+percent)/n, note) }
	progress(0, fmt.Sprintf("creating disk %d", p.Number))
	if p.IsInBlockPool() {
		return a.createBlockDisk(ctx, p)
	}
	pool, err := storage.LookupPool(ctx, a.c, p.Pool.Name)
	if err != nil {
		return err
	}
	if err := a.removeVolume(ctx, a.c, p.WithUnfinishedName()); err != nil {
		return err
	}
	if p.Encrypted {
		if err := a.createDiskSecret(ctx, a.c, p); err != nil {
			return fmt.Errorf("create the passphrase of disk %d: %w", p.Number, err)
		}
	}
	if p.Image == nil {
		blank := newVolumeSpec{format: p.Format, size: p.Size}
		if p.Encrypted {
			blank.secret = string(domxml.DiskSecretUUID(p.Ref()))
		}
		err = a.createEmptyVolume(ctx, pool, p, blank)
	} else if p.Overlay {
		err = a.createOverlay(ctx, pool, p)
	} else {
		err = a.cloneImage(ctx, pool, p, func(percent int) { progress(percent, fmt.Sprintf("copying %s to disk %d", p.Image.Name, p.Number)) })
	}
	if err != nil {
		return err
	}
	if _, err = hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, renameUnfinishedFile(p) }); err != nil {
		return err
	}
	if err := a.in.RecordDisk(p.Ref()); err != nil {
		return err
	}
	a.pools.Refresh(ctx, a.c, pool)
	a.diskSizes.ExpireDir(p.Pool.Spec.Path)
	progress(100, fmt.Sprintf("disk %d is ready", p.Number))
	return nil
}

// maxHashSpeedTries is how often QEMU may fail to measure the host's hash speed.
const maxHashSpeedTries = 5

// createEmptyVolume creates an empty volume. For an encrypted volume, QEMU measures the host's hash speed by CPU time.
// On a busy host the measured time is sometimes 0 and QEMU fails, so createEmptyVolume tries again.
func (a *applyRun) createEmptyVolume(ctx context.Context, pool golibvirt.StoragePool, p storage.LocalVolume, v newVolumeSpec) error {
	for try := 1; ; try++ {
		_, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
			return l.StorageVolCreateXML(pool, volumeXML(p.WithUnfinishedName().Name, v), 0)
		})
		if err == nil || v.secret == "" || try == maxHashSpeedTries || !strings.Contains(err.Error(), "accurate CPU usage") {
			return err
		}
		if err := a.removeVolume(ctx, a.c, p.WithUnfinishedName()); err != nil {
			return err
		}
	}
}

// renameUnfinishedFile renames a complete disk to its final name. It fails if a file with the final name exists.
func renameUnfinishedFile(p storage.LocalVolume) error {
	from := p.WithUnfinishedName().Path()
	err := hostfile.RenameNoReplace(from, p.Path())
	if errors.Is(err, fs.ErrExist) {
		return fleet.Errorf(fleet.Conflict, "A file named %s appeared in the pool %s while the disk was being created. The file was not changed. Try again to use it as the disk.", p.Name, p.Pool.Name)
	}
	if err != nil {
		return err
	}
	return hostfile.UnlinkOldName(from, p.Path())
}

// checkExistingDisk refuses an existing volume that is not a self-contained disk, because QEMU would open the files
// that the volume refers to.
func (b *Backend) checkExistingDisk(ctx context.Context, c *conn.Conn, p storage.LocalVolume, made bool) error {
	h, err := b.volumeFile(ctx, c, p)
	switch {
	case err != nil:
		return err
	case made && p.Format == fleet.Raw && !p.Preexisting:
		return nil // the content of a raw file is guest data
	case p.Preexisting && (h.Format != "raw" || h.Size == 0):
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s has the format %s, or is empty. VMs can share only raw volumes.", p.Name, p.Pool.Name, h.Format)
	case p.Preexisting:
	case h.Format != p.Format:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and has the format %s, not %s. Choose another name for the disk.", p.Name, p.Pool.Name, h.Format, p.Format)
	case p.Overlay && !h.Encrypted && backedByImage(p):
	case p.Encrypted && h.Encrypted && h.RefersTo == "":
	case p.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and is not encrypted. Choose another name for the disk.", p.Name, p.Pool.Name)
	case h.RefersTo != "" || h.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s already exists and is not self-contained. Choose another name for the disk.", p.Name, p.Pool.Name)
	}
	return nil
}

// removeVolume deletes a volume. It waits while libvirt still writes the volume. A missing volume is no error.
func (b *Backend) removeVolume(ctx context.Context, c *conn.Conn, p storage.LocalVolume) error {
	if !p.IsInBlockPool() {
		there, err := hostfile.Exists(ctx, p.Path())
		if err != nil || !there && !b.isVolumeBeingCreated(ctx, c, p) {
			return err
		}
	}
	retry := time.NewTicker(500 * time.Millisecond)
	defer retry.Stop()
	pool, err := storage.LookupPool(ctx, c, p.Pool.Name)
	for refreshed := false; ; {
		if err != nil {
			return err
		}
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
			v, err := l.StorageVolLookupByName(pool, p.Name)
			if err != nil {
				return err
			}
			return l.StorageVolDelete(v, 0)
		})
		switch {
		case err == nil:
			return nil
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol) && !refreshed:
			b.pools.Refresh(ctx, c, pool)
			refreshed, err = true, nil
			continue
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol) && p.IsInBlockPool():
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

// isVolumeBeingCreated reports whether libvirt is about to create a file that does not exist yet, for an agent that has just
// died.
func (b *Backend) isVolumeBeingCreated(ctx context.Context, c *conn.Conn, p storage.LocalVolume) bool {
	if p == p.WithFinalName() {
		return false
	}
	pool, err := storage.LookupPool(ctx, c, p.Pool.Name)
	if err == nil {
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error { _, err := l.StorageVolLookupByName(pool, p.Name); return err })
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
