package storage

import (
	"path"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// poolSourcesByKind maps the pool kinds to libvirt's pool definitions.
var poolSourcesByKind = map[fleet.PoolKind]poolSource{
	fleet.PoolDir: {libvirt: "dir", source: func(fleet.Pool) *libvirtxml.StoragePoolSource { return nil }},
	fleet.PoolFS: {libvirt: "fs", device: func(s fleet.PoolSpec) string { return s.Device }, source: func(p fleet.Pool) *libvirtxml.StoragePoolSource {
		return &libvirtxml.StoragePoolSource{
			Device: []libvirtxml.StoragePoolSourceDevice{{Path: path.Clean(p.Spec.Device)}}, Format: &libvirtxml.StoragePoolSourceFormat{Type: fileSystemName(p.Spec)},
		}
	}},
	fleet.PoolNFS: {
		libvirt: "netfs",
		source: func(p fleet.Pool) *libvirtxml.StoragePoolSource {
			return netSource(p.Spec.Server, path.Clean(p.Spec.Export), "nfs")
		},
	},
	fleet.PoolGluster: {
		libvirt: "netfs",
		source: func(p fleet.Pool) *libvirtxml.StoragePoolSource {
			return netSource(p.Spec.Server, "/"+p.Spec.Volume, "glusterfs")
		},
	},
	fleet.PoolISCSIDirect: {
		libvirt: "iscsi-direct", blocks: iscsiDirectMapping, secret: chapSecret, source: iscsiSource,
	},
	fleet.PoolISCSI: {
		libvirt: "iscsi", blocks: iscsiKernelMapping, secret: chapSecret, source: iscsiSource, target: func(fleet.PoolSpec) string { return "/dev/disk/by-path" },
	},
	fleet.PoolRBD: {
		libvirt: "rbd", blocks: rbdMapping, secret: cephSecret,
		source: func(p fleet.Pool) *libvirtxml.StoragePoolSource {
			return &libvirtxml.StoragePoolSource{Name: p.Spec.CephPool, Host: poolServers(p.Spec), Auth: poolAuth(p, "ceph")}
		},
	},
	fleet.PoolLogical: {
		libvirt: "logical", blocks: lvmMapping,
		device: func(s fleet.PoolSpec) string { return "/dev/" + s.Group }, target: func(s fleet.PoolSpec) string { return "/dev/" + s.Group },
		source: func(p fleet.Pool) *libvirtxml.StoragePoolSource {
			return &libvirtxml.StoragePoolSource{Name: p.Spec.Group, Format: &libvirtxml.StoragePoolSourceFormat{Type: "lvm2"}}
		},
	},
}

// poolSource describes the libvirt definition of a pool kind.
type poolSource struct {
	libvirt string // libvirt's pool type
	source  func(fleet.Pool) *libvirtxml.StoragePoolSource
	// target returns the target path that libvirt requires although it follows from the source; nil: none, or the
	// pool's path
	target func(fleet.PoolSpec) string
	device func(fleet.PoolSpec) string // the device that the agent's settings must allow; nil: the kind uses no host device
	secret *poolSecret                 // nil: the kind has no secret
	blocks *blockVolumeMapping         // nil: a file pool
}

func netSource(server, dir, format string) *libvirtxml.StoragePoolSource {
	return &libvirtxml.StoragePoolSource{
		Host: []libvirtxml.StoragePoolSourceHost{{Name: server}}, Dir: &libvirtxml.StoragePoolSourceDir{Path: dir},
		Format: &libvirtxml.StoragePoolSourceFormat{Type: format},
	}
}

// fileSystemName returns libvirt's name of the file system. For btrfs it returns "auto", because not every libvirt
// knows btrfs and mount detects the file system.
func fileSystemName(s fleet.PoolSpec) string {
	if s.Format == "btrfs" {
		return "auto"
	}
	return s.Format
}

// poolXML returns the pool's libvirt definition.
func poolXML(p fleet.Pool) libvirtxml.StoragePool {
	kind := poolSourcesByKind[p.Spec.Kind]
	x := libvirtxml.StoragePool{Type: kind.libvirt, Name: p.Name, UUID: string(p.ID)}
	switch {
	case kind.blocks == nil:
		x.Target = &libvirtxml.StoragePoolTarget{Path: path.Clean(p.Spec.Path)}
	case kind.target != nil:
		x.Target = &libvirtxml.StoragePoolTarget{Path: kind.target(p.Spec)}
	}
	if kind.source != nil {
		x.Source = kind.source(p)
	}
	return x
}

// storageIdentity identifies the storage of a pool. Pools with equal values use the same storage.
type storageIdentity struct {
	kind, path, host, dir, device string
	gluster                       bool // otherwise NFS
}

func storageIdentityOf(x libvirtxml.StoragePool) storageIdentity {
	if blockVolumeMappingByPoolType(x.Type) != nil {
		return blockStorageIdentity(x)
	}
	at := storageIdentity{kind: x.Type}
	if x.Target != nil {
		at.path = path.Clean(x.Target.Path)
	}
	s := x.Source
	if s == nil || x.Type == "dir" {
		return at
	}
	var hosts, devices []string
	for _, h := range s.Host {
		hosts = append(hosts, h.Name)
	}
	for _, d := range s.Device {
		devices = append(devices, path.Clean(d.Path))
	}
	at.host, at.device = strings.Join(hosts, ","), strings.Join(devices, ",")
	if s.Dir != nil {
		at.dir = path.Clean(s.Dir.Path)
	}
	at.gluster = s.Format != nil && s.Format.Type == "glusterfs"
	return at
}

// describe returns the storage as a phrase for people.
func (at storageIdentity) describe() string {
	var all []string
	if at.path != "" {
		all = append(all, "at "+at.path)
	}
	switch {
	case at.host != "" && at.device != "":
		all = append(all, "of "+at.device+" at "+at.host)
	case at.host != "" && at.dir != "":
		all = append(all, "from "+at.host+":"+at.dir)
	case at.device != "":
		all = append(all, "from "+at.device)
	case at.dir != "":
		all = append(all, "of "+at.dir)
	}
	return strings.Join(all, " ")
}

// isSameStorage reports whether libvirt's pool has the storage of the spec.
func isSameStorage(x libvirtxml.StoragePool, s fleet.PoolSpec) bool {
	return storageIdentityOf(x) == storageIdentityOf(poolXML(fleet.Pool{Spec: s}))
}

// errPoolHasOtherSource is the error for a pool of this name with another source.
func errPoolHasOtherSource(name string, x libvirtxml.StoragePool) error {
	at := storageIdentityOf(x)
	what := strings.TrimSpace(at.kind + " " + at.describe())
	return fleet.Errorf(fleet.Conflict, "The host already has a storage pool named %q with another source (%s). Give your pool another name, or remove the host's pool with virsh.", name, what)
}
