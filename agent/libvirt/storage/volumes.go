package storage

import (
	"context"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// VolumeFormat returns the pool's volume with that name, and the format that libvirt detected.
func VolumeFormat(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, name string) (golibvirt.StorageVol, string, error) {
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

// LookupVolume looks up the volume in libvirt, and again after a refresh of the pool. It returns nil if the volume does
// not exist.
func (ps *Pools) LookupVolume(ctx context.Context, c *conn.Conn, p LocalVolume) (*golibvirt.StorageVol, fleet.Volume, error) {
	pool, err := LookupPool(ctx, c, p.Pool.Name)
	if err != nil {
		return nil, fleet.Volume{}, err
	}
	for refreshed := false; ; refreshed = true {
		v, volume, err := ps.readVolumeInfo(ctx, c, pool, p)
		if err == nil || !conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol) {
			return v, volume, err
		}
		if refreshed {
			return nil, volume, nil
		}
		if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolRefresh(pool, 0) }); err != nil && !isPoolBusyError(err) {
			return nil, volume, err
		}
	}
}

// readVolumeInfo reads the volume from libvirt, without a refresh of the pool.
func (ps *Pools) readVolumeInfo(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, p LocalVolume) (*golibvirt.StorageVol, fleet.Volume, error) {
	var x libvirtxml.StorageVolume
	v, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (v golibvirt.StorageVol, err error) {
		var text string
		if v, err = l.StorageVolLookupByName(pool, p.Name); err == nil {
			text, err = l.StorageVolGetXMLDesc(v, 0)
		}
		if err == nil {
			err = x.Unmarshal(text)
		}
		return v, err
	})
	return &v, volumeFromXML(p.Pool, x), err
}

// volumeFromXML returns the volume as libvirt's pool reports it. The name is empty if the volume is unusable, such as
// an iSCSI controller.
func volumeFromXML(p fleet.Pool, x libvirtxml.StorageVolume) fleet.Volume {
	v, kind := volumeFromLibvirt(x), BlockVolumeMappingOf(p.Spec)
	if kind == nil {
		return v
	}
	v.Format, v.Backing, v.Path, v.Unfinished = kind.format, "", kind.address(p, v.Name), false
	if v.CapacityBytes == 0 || v.Path == "" {
		return fleet.Volume{}
	}
	return v
}

// RequireVolume returns the volume, or an error if the volume is missing.
func (ps *Pools) RequireVolume(ctx context.Context, c *conn.Conn, p LocalVolume) (golibvirt.StorageVol, fleet.Volume, error) {
	ref, v, err := ps.LookupVolume(ctx, c, p)
	if err == nil && ref == nil {
		err = hypervisor.NoVolumeError(p.Name, p.Pool.Name)
	}
	if err != nil {
		return golibvirt.StorageVol{}, v, err
	}
	return *ref, v, nil
}

// volumeFromLibvirt converts libvirt's description of a volume.
func volumeFromLibvirt(x libvirtxml.StorageVolume) fleet.Volume {
	v := fleet.Volume{Name: x.Name, Unfinished: strings.HasSuffix(x.Name, PartialSuffix)}
	if x.Target != nil {
		v.Path = x.Target.Path
		if x.Target.Format != nil {
			v.Format = x.Target.Format.Type
		}
	}
	if x.Capacity != nil {
		v.CapacityBytes = int64(x.Capacity.Value)
	}
	if x.Allocation != nil {
		v.AllocBytes = int64(x.Allocation.Value)
	}
	if x.BackingStore != nil {
		v.Backing = x.BackingStore.Path
	}
	return v
}
