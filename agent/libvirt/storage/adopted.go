package storage

import (
	"net"
	"path"
	"reflect"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
)

// hostPool expresses a pool's definition that Quantix did not write as a spec. The spec is nil if Quantix cannot adopt the
// pool.
func hostPool(x libvirtxml.StoragePool) (*fleet.PoolSpec, fleet.Adoptability) {
	spec, why := specOfDefinition(x)
	if why == "" && x.Source != nil && x.Source.Auth != nil {
		why = "Hosts log in to the pool's storage with a secret, which Quantix cannot read. Create a pool with another name and the secret."
	}
	if why == "" {
		why = adoption.WhyUnsupported(x.Name, spec.Check)
	}
	if why == "" && !isSameStorage(x, spec) {
		why = "Quantix has no fields for the pool's source: " + strings.TrimSpace(x.Type+" "+storageIdentityOf(x).describe()) + "."
	}
	if why != "" {
		return nil, fleet.Adoptability{Refusal: why}
	}
	return &spec, fleet.Adoptability{Kept: keptPoolParts(x, spec)}
}

// specOfDefinition reads the spec from a definition. why is the reason if Quantix has no such pools.
func specOfDefinition(x libvirtxml.StoragePool) (s fleet.PoolSpec, why string) {
	read, known := specReaders[x.Type]
	if !known {
		return s, "Quantix has no pools of the type " + x.Type + "."
	}
	if x.Source == nil {
		x.Source = &libvirtxml.StoragePoolSource{}
	}
	if x.Target == nil {
		x.Target = &libvirtxml.StoragePoolTarget{}
	}
	s = read(*x.Source)
	if s.Kind == "" {
		return s, "Quantix has no pools of the type " + x.Type + " with this source."
	}
	if s.Kind.Info().FilePool {
		s.Path = path.Clean(x.Target.Path)
	}
	s.Shared = s.Kind.Info().Shared
	return s, ""
}

// specReaders read the source of each pool type of libvirt. They return no kind if Quantix has no such pools.
var specReaders = map[string]func(libvirtxml.StoragePoolSource) fleet.PoolSpec{
	"dir": func(libvirtxml.StoragePoolSource) fleet.PoolSpec { return fleet.PoolSpec{Kind: fleet.PoolDir} },
	"fs": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		return fleet.PoolSpec{Kind: fleet.PoolFS, Device: onlyDevice(s), Format: formatOf(s)}
	},
	"netfs": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		dir := ""
		if s.Dir != nil {
			dir = s.Dir.Path
		}
		switch formatOf(s) {
		case "", "auto", "nfs":
			return fleet.PoolSpec{Kind: fleet.PoolNFS, Server: onlyServer(s), Export: dir}
		case "glusterfs":
			return fleet.PoolSpec{Kind: fleet.PoolGluster, Server: onlyServer(s), Volume: strings.TrimPrefix(dir, "/")}
		}
		return fleet.PoolSpec{}
	},
	"iscsi": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		return fleet.PoolSpec{Kind: fleet.PoolISCSI, Portal: onlyServer(s), Target: onlyDevice(s)}
	},
	"iscsi-direct": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		out := fleet.PoolSpec{Kind: fleet.PoolISCSIDirect, Portal: onlyServer(s), Target: onlyDevice(s)}
		if s.Initiator != nil {
			out.Initiator = s.Initiator.IQN.Name
		}
		return out
	},
	"rbd": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		monitors := make([]string, len(s.Host))
		for i, h := range s.Host {
			monitors[i] = serverAddress(h)
		}
		return fleet.PoolSpec{Kind: fleet.PoolRBD, CephPool: s.Name, Monitors: strings.Join(monitors, ",")}
	},
	"logical": func(s libvirtxml.StoragePoolSource) fleet.PoolSpec {
		return fleet.PoolSpec{Kind: fleet.PoolLogical, Group: s.Name}
	},
}

func formatOf(s libvirtxml.StoragePoolSource) string {
	if s.Format == nil {
		return ""
	}
	return s.Format.Type
}

// onlyDevice returns the source's device; empty: it has none or several.
func onlyDevice(s libvirtxml.StoragePoolSource) string {
	if len(s.Device) != 1 {
		return ""
	}
	return s.Device[0].Path
}

// onlyServer returns the source's server; empty: it has none or several.
func onlyServer(s libvirtxml.StoragePoolSource) string {
	if len(s.Host) != 1 {
		return ""
	}
	return serverAddress(s.Host[0])
}

func serverAddress(h libvirtxml.StoragePoolSourceHost) string {
	if h.Port == "" {
		return h.Name
	}
	return net.JoinHostPort(h.Name, h.Port)
}

// keptPoolParts lists the parts of a definition that the spec does not have.
func keptPoolParts(x libvirtxml.StoragePool, spec fleet.PoolSpec) (parts []string) {
	want := poolXML(fleet.Pool{Spec: spec})
	part := func(name string, present bool) {
		if present {
			parts = append(parts, name)
		}
	}
	part("features", x.Features != nil)
	part("refresh options", x.Refresh != nil)
	part("mount options", x.FSCommandline != nil)
	part("Ceph options", x.RBDCommandline != nil)
	part("encryption", x.Target != nil && x.Target.Encryption != nil)
	if s := x.Source; s != nil {
		part("source format", want.Source != nil && !reflect.DeepEqual(s.Format, want.Source.Format))
		part("protocol version", s.Protocol != nil)
		part("vendor", s.Vendor != nil || s.Product != nil)
	}
	return parts
}
