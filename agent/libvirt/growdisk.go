package libvirt

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// growDisks grows the disks to the sizes of the spec. It must run before the definition records the new sizes, so that
// the next job retries after a failure. A disk that already has the size stays unchanged.
func (a *applyRun) growDisks(ctx context.Context, old observedDomain, kept *libvirtxml.Domain, disks []fleet.Disk) error {
	for _, d := range disks {
		p, err := storage.LocalVolumeOf(d.Ref(), a.in.Pools)
		if err != nil {
			return err
		}
		p.Number = 1 + slices.IndexFunc(a.in.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		p.Size, p.Format = d.SizeBytes, d.FileFormat()
		a.in.Progress(100, fmt.Sprintf("growing disk %d to %s", p.Number, fleet.FormatBytes(p.Size)))
		if err := a.growDisk(ctx, old, kept, p); err != nil {
			return fmt.Errorf("disk %d: %w", p.Number, err)
		}
		a.expirePoolCaches(p.Pool)
	}
	return nil
}

func (a *applyRun) growDisk(ctx context.Context, old observedDomain, kept *libvirtxml.Domain, p storage.LocalVolume) error {
	if err := refuseStorageManagedVolumes(p.Pool); err != nil {
		return err
	}
	in, err := growableDisk(kept, p)
	if err != nil {
		return err
	}
	var running *libvirtxml.DomainDisk
	if old.live != nil && in != nil {
		live, err := conn.ReadDefinition(ctx, a.c, old.ref, 0)
		if err != nil {
			return err
		}
		if running, err = growableDisk(live, p); err != nil {
			return err
		}
	}
	if p.IsInBlockPool() {
		ref, v, err := a.pools.RequireVolume(ctx, a.c, p)
		if err == nil && v.CapacityBytes < p.Size {
			err = a.growBlockVolumeTo(ctx, a.c, ref, p.Size)
		}
		if err != nil || running == nil {
			return err
		}
		// The guest is notified of the size in any case: an earlier job may have ended after it grew the volume and
		// before it notified the guest.
		return a.resizeLiveDisk(ctx, old.ref, running, max(p.Size, v.CapacityBytes))
	}
	f, err := a.volumeFile(ctx, a.c, p)
	switch {
	case err != nil || f.Size >= p.Size:
		return err
	case f.Encrypted && running == nil:
		return hypervisor.RefuseGrowEncryptedWhileOff(p.Name)
	}
	other, err := a.overlayOf(ctx, a.c, p, f.ID)
	switch {
	case err != nil:
		return err
	case other != "":
		return hypervisor.RefuseBackingVolume(p.Name, other)
	case running != nil:
		return a.resizeLiveDisk(ctx, old.ref, running, p.Size)
	}
	if err := checkVolumeNotOpen(ctx, p); err != nil {
		return err
	}
	pool, err := storage.LookupPool(ctx, a.c, p.Pool.Name)
	if err != nil {
		return err
	}
	return a.growVolumeTo(ctx, a.c, pool, p, f, p.Size)
}

// growVolumeTo grows the file of a volume to size bytes. No guest may use the volume.
func (b *Backend) growVolumeTo(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, p storage.LocalVolume, f hostfile.VolumeFile, size int64) error {
	if f.Format == fleet.Raw {
		_, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, hostfile.GrowFile(p.Path(), size) })
		return err
	}
	volume, err := b.checkSameFormat(ctx, c, pool, p.Name, f.ImageHeader)
	if err != nil {
		return err
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StorageVolResize(volume, uint64(size), 0) })
}

// resizeLiveDisk makes QEMU grow the disk of a running guest to size bytes and notify the guest.
func (a *applyRun) resizeLiveDisk(ctx context.Context, ref golibvirt.Domain, d *libvirtxml.DomainDisk, size int64) error {
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockResize(ref, domxml.DiskTargetOf(d), uint64(size), golibvirt.DomainBlockResizeBytes)
	})
}

// growableDisk returns the definition's disk of p, or nil. It refuses a shared, read-only or mirrored disk and a disk
// with an overlay, because growing the file would not grow the guest's disk.
func growableDisk(x *libvirtxml.Domain, p storage.LocalVolume) (*libvirtxml.DomainDisk, error) {
	if x.Devices == nil {
		return nil, nil
	}
	want := domxml.LocatedDisk{Alias: domxml.DiskAlias(p.Ref()), Path: p.Path()}
	if kind := storage.BlockVolumeMappingOf(p.Pool.Spec); kind != nil {
		want.Source = kind.Source(p.Pool, p.Name)
		want.Path = domxml.SourcePath(want.Source)
	}
	i := slices.IndexFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return want.Matches(&d) })
	if i < 0 {
		return nil, nil
	}
	d := &x.Devices.Disks[i]
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.Conflict, "The disk %s cannot be grown: %s", p.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case d.ReadOnly != nil || d.Shareable != nil:
		return nil, refuse("the disk is shared or read-only in the VM's definition.")
	case domxml.DiskPathOf(d) != want.Path:
		return nil, refuse("the VM uses the file %s instead, for example after a snapshot. Merge that file first.", filepath.Base(domxml.DiskPathOf(d)))
	case d.Mirror != nil:
		return nil, refuse("a block job on the host copies the disk. End the job first (virsh blockjob).")
	}
	return d, nil
}
