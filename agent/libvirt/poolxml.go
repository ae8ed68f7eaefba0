package libvirt

import (
	"path"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// poolSources are the kinds of pools in libvirt's words.
var poolSources = map[fleet.PoolKind]poolSource{
	fleet.PoolDir: {libvirt: "dir", source: func(fleet.PoolSpec) *libvirtxml.StoragePoolSource { return nil }},
	fleet.PoolFS: {libvirt: "fs", source: func(s fleet.PoolSpec) *libvirtxml.StoragePoolSource {
		return &libvirtxml.StoragePoolSource{
			Device: []libvirtxml.StoragePoolSourceDevice{{Path: path.Clean(s.Device)}}, Format: &libvirtxml.StoragePoolSourceFormat{Type: deviceFormat(s)},
		}
	}},
	fleet.PoolNFS: {
		libvirt: "netfs", helper: "mount.nfs", packages: "nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat)",
		source: func(s fleet.PoolSpec) *libvirtxml.StoragePoolSource {
			return netSource(s.Server, path.Clean(s.Export), "nfs")
		},
	},
	fleet.PoolGluster: {
		libvirt: "netfs", helper: "mount.glusterfs", packages: "glusterfs-client (Debian, Ubuntu) or glusterfs-fuse (Fedora, Red Hat)",
		source: func(s fleet.PoolSpec) *libvirtxml.StoragePoolSource {
			return netSource(s.Server, "/"+s.Volume, "glusterfs")
		},
	},
}

type poolSource struct {
	libvirt          string // its type of pool
	helper, packages string // the program that mounts it, and what brings that; empty: the kernel does
	source           func(fleet.PoolSpec) *libvirtxml.StoragePoolSource
}

func netSource(server, dir, format string) *libvirtxml.StoragePoolSource {
	return &libvirtxml.StoragePoolSource{
		Host: []libvirtxml.StoragePoolSourceHost{{Name: server}}, Dir: &libvirtxml.StoragePoolSourceDir{Path: dir},
		Format: &libvirtxml.StoragePoolSourceFormat{Type: format},
	}
}

// deviceFormat is what libvirt calls the file system: not all versions know btrfs, which mount finds by itself.
func deviceFormat(s fleet.PoolSpec) string {
	if s.Format == "btrfs" {
		return "auto"
	}
	return s.Format
}

func poolXML(p fleet.Pool) libvirtxml.StoragePool {
	kind := poolSources[p.Spec.Kind]
	x := libvirtxml.StoragePool{
		Type: kind.libvirt, Name: p.Name, UUID: string(p.ID), Target: &libvirtxml.StoragePoolTarget{Path: path.Clean(p.Spec.Path)},
	}
	if kind.source != nil {
		x.Source = kind.source(p.Spec)
	}
	return x
}

// poolPlace is what makes two pools of libvirt the same one.
type poolPlace struct {
	kind, path, host, dir, device string
	gluster                       bool // else NFS
}

func poolPlaceOf(x libvirtxml.StoragePool) poolPlace {
	at := poolPlace{kind: x.Type}
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

// sameSource reports whether libvirt's pool is the one that the spec means.
func sameSource(x libvirtxml.StoragePool, s fleet.PoolSpec) bool {
	return poolPlaceOf(x) == poolPlaceOf(poolXML(fleet.Pool{Spec: s}))
}

func otherSource(name string, x libvirtxml.StoragePool) error {
	at := poolPlaceOf(x)
	what := at.kind
	if at.path != "" {
		what += " at " + at.path
	}
	switch {
	case at.host != "" && at.dir != "":
		what += " from " + at.host + ":" + at.dir
	case at.device != "":
		what += " from " + at.device
	}
	return fleet.Errorf(fleet.Conflict, "The host has a storage pool named %q already, with another source (%s). Give the pool another name, or remove that one with virsh.", name, what)
}
