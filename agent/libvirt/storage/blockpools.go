package storage

import (
	"context"
	"encoding/base64"
	"net"
	"path"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// blockVolumeMapping maps the volumes of a block pool to addresses. An address is the result of domxml.DiskPathOf for a
// disk and identifies a volume in every definition.
type blockVolumeMapping struct {
	format string // the format in volume lists
	// prefix returns the address prefix of the pool's volumes, also for a pool that somebody else defined. An empty
	// prefix means that the pool's name is the prefix.
	prefix   func(libvirtxml.StoragePool) string
	suffixOf func(volume string) string // the address after prefix; empty if no volume can have this name
	nameOf   func(below string) string  // the inverse of suffixOf
	Source   func(p fleet.Pool, volume string) *libvirtxml.DomainDiskSource
}

// BlockVolumeMappingOf returns the mapping of the pool's kind. It returns nil for a file pool.
func BlockVolumeMappingOf(s fleet.PoolSpec) *blockVolumeMapping {
	return poolSourcesByKind[s.Kind].blocks
}

// address returns the volume's address. It is empty if no volume of the pool can have this name.
func (b *blockVolumeMapping) address(p fleet.Pool, volume string) string {
	below := b.suffixOf(volume)
	if base := b.prefix(poolXML(p)); base != "" && below != "" {
		return base + below
	}
	if below != "" {
		return domxml.VolumeRefPath(p.Name, volume)
	}
	return ""
}

// volumeAt returns the name of the pool's volume at the address. It is empty if the address is not in the pool.
func (b *blockVolumeMapping) volumeAt(p fleet.Pool, address string) string {
	if name, ok := strings.CutPrefix(address, domxml.VolumeRefPath(p.Name, "")); ok {
		return name
	}
	base := b.prefix(poolXML(p))
	if below, ok := strings.CutPrefix(address, base); ok && base != "" {
		return b.nameOf(below)
	}
	return ""
}

var (
	unchanged = func(v string) string { return v }

	lunSuffix = func(v string) string {
		n, _ := fleet.LUNNumber(v)
		return n
	}

	iscsiDirectMapping = &blockVolumeMapping{
		format: fleet.FormatLUN, suffixOf: lunSuffix,
		prefix: func(x libvirtxml.StoragePool) string {
			if x.Source == nil || len(x.Source.Device) != 1 {
				return ""
			}
			return "iscsi:" + x.Source.Device[0].Path + "/"
		},
		nameOf: func(below string) string {
			if v := "unit:0:0:" + below; lunSuffix(v) == below {
				return v
			}
			return ""
		},
		Source: func(p fleet.Pool, volume string) *libvirtxml.DomainDiskSource {
			return &libvirtxml.DomainDiskSource{Network: &libvirtxml.DomainDiskSourceNetwork{
				Protocol: "iscsi", Name: p.Spec.Target + "/" + lunSuffix(volume), Hosts: diskServers(p.Spec), Auth: diskAuth(p, "iscsi"),
				Initiator: &libvirtxml.DomainDiskSourceNetworkInitiator{IQN: &libvirtxml.DomainDiskSourceNetworkIQN{Name: p.Spec.Initiator}},
			}}
		},
	}

	// The kernel's names of LUNs contain addresses that only one host can resolve, so disks refer to the volume of the
	// libvirt pool instead.
	iscsiKernelMapping = &blockVolumeMapping{
		format: fleet.FormatLUN, suffixOf: lunSuffix, nameOf: unchanged, prefix: func(libvirtxml.StoragePool) string { return "" },
		Source: func(p fleet.Pool, volume string) *libvirtxml.DomainDiskSource {
			return &libvirtxml.DomainDiskSource{Volume: &libvirtxml.DomainDiskSourceVolume{Pool: p.Name, Volume: volume, Mode: "host"}}
		},
	}

	rbdMapping = &blockVolumeMapping{
		format: fleet.FormatRBD, suffixOf: unchanged, nameOf: unchanged,
		prefix: func(x libvirtxml.StoragePool) string {
			if x.Source == nil {
				return ""
			}
			return "rbd:" + x.Source.Name + "/"
		},
		Source: func(p fleet.Pool, volume string) *libvirtxml.DomainDiskSource {
			return &libvirtxml.DomainDiskSource{Network: &libvirtxml.DomainDiskSourceNetwork{
				Protocol: "rbd", Name: p.Spec.CephPool + "/" + volume, Hosts: diskServers(p.Spec), Auth: diskAuth(p, "ceph"),
			}}
		},
	}

	lvmMapping = &blockVolumeMapping{
		format: fleet.FormatLV, suffixOf: unchanged, nameOf: unchanged,
		prefix: func(x libvirtxml.StoragePool) string {
			if x.Source == nil {
				return ""
			}
			return "/dev/" + x.Source.Name + "/"
		},
		Source: func(p fleet.Pool, volume string) *libvirtxml.DomainDiskSource {
			return &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: path.Join("/dev", p.Spec.Group, volume)}}
		},
	}
)

// blockVolumeMappingByPoolType returns the mapping for libvirt's pool type. It returns nil for a file pool or an unknown type.
func blockVolumeMappingByPoolType(libvirtType string) *blockVolumeMapping {
	for _, s := range poolSourcesByKind {
		if s.libvirt == libvirtType {
			return s.blocks
		}
	}
	return nil
}

// poolServers returns the addresses of the pool's storage servers, each with its port if the spec has one.
func poolServers(s fleet.PoolSpec) (out []libvirtxml.StoragePoolSourceHost) {
	all := s.CephMonitors()
	if s.Portal != "" {
		all = []string{s.Portal}
	}
	for _, server := range all {
		host, port := fleet.SplitServerAddress(server)
		if port == "" && s.Portal != "" {
			port = "3260"
		}
		out = append(out, libvirtxml.StoragePoolSourceHost{Name: host, Port: port})
	}
	return out
}

// diskServers returns the pool's storage servers for the source of a disk.
func diskServers(s fleet.PoolSpec) (out []libvirtxml.DomainDiskSourceHost) {
	for _, h := range poolServers(s) {
		out = append(out, libvirtxml.DomainDiskSourceHost{Name: h.Name, Port: h.Port})
	}
	return out
}

// diskAuth returns a reference to the pool's secret. The secret has the UUID of the pool, so definitions can refer to
// the secret without containing it.
func diskAuth(p fleet.Pool, kind string) *libvirtxml.DomainDiskAuth {
	if p.Spec.User == "" {
		return nil
	}
	return &libvirtxml.DomainDiskAuth{Username: p.Spec.User, Secret: &libvirtxml.DomainDiskSecret{Type: kind, UUID: string(p.ID)}}
}

// poolAuth returns a reference to the pool's secret for the pool's own definition.
func poolAuth(p fleet.Pool, kind string) *libvirtxml.StoragePoolSourceAuth {
	if p.Spec.User == "" {
		return nil
	}
	return &libvirtxml.StoragePoolSourceAuth{Type: kind, Username: p.Spec.User, Secret: &libvirtxml.StoragePoolSourceAuthSecret{UUID: string(p.ID)}}
}

func iscsiSource(p fleet.Pool) *libvirtxml.StoragePoolSource {
	x := &libvirtxml.StoragePoolSource{
		Host: poolServers(p.Spec), Device: []libvirtxml.StoragePoolSourceDevice{{Path: p.Spec.Target}}, Auth: poolAuth(p, "chap"),
	}
	if p.Spec.Initiator != "" {
		x.Initiator = &libvirtxml.StoragePoolSourceInitiator{IQN: libvirtxml.StoragePoolSourceInitiatorIQN{Name: p.Spec.Initiator}}
	}
	return x
}

// blockStorageIdentity returns the identity of a block pool's storage. It ignores the fields that libvirt adds after a
// refresh.
func blockStorageIdentity(x libvirtxml.StoragePool) storageIdentity {
	at := storageIdentity{kind: x.Type}
	if x.Source == nil {
		return at
	}
	at.dir = x.Source.Name
	if x.Type == "logical" {
		return at
	}
	var hosts []string
	for _, h := range x.Source.Host {
		if h.Port == "" {
			hosts = append(hosts, h.Name)
		} else {
			hosts = append(hosts, net.JoinHostPort(h.Name, h.Port))
		}
	}
	slices.Sort(hosts)
	at.host = strings.Join(hosts, ",")
	if len(x.Source.Device) > 0 {
		at.device = x.Source.Device[0].Path
	}
	return at
}

// poolSecret describes the libvirt secret of a pool kind: the usage element and the bytes of the value.
type poolSecret struct {
	usage func(id string) *libvirtxml.SecretUsage
	value func(secret string) ([]byte, error)
}

var (
	chapSecret = &poolSecret{
		usage: func(id string) *libvirtxml.SecretUsage {
			return &libvirtxml.SecretUsage{Type: "iscsi", Target: "quantix pool " + id}
		},
		value: func(secret string) ([]byte, error) { return []byte(secret), nil },
	}
	cephSecret = &poolSecret{
		usage: func(id string) *libvirtxml.SecretUsage {
			return &libvirtxml.SecretUsage{Type: "ceph", Name: "quantix pool " + id}
		},
		value: base64.StdEncoding.DecodeString,
	}
)

// secretXML returns the libvirt definition of the pool's secret, without its value.
func secretXML(p fleet.Pool) libvirtxml.Secret {
	return libvirtxml.Secret{
		Ephemeral: "no", Private: "yes", UUID: string(p.ID), Description: "Quantix: storage pool " + p.Name,
		Usage: poolSourcesByKind[p.Spec.Kind].secret.usage(string(p.ID)),
	}
}

// SetPoolSecret implements hypervisor.Storage. libvirt never returns the value of a private secret. The secret survives
// restarts of the host, because guests with autostart need it.
func (ps *Pools) SetPoolSecret(ctx context.Context, p fleet.Pool, secret string) error {
	kind := poolSourcesByKind[p.Spec.Kind].secret
	if kind == nil {
		return fleet.Errorf(fleet.Invalid, "A pool of kind %q has no secret.", string(p.Spec.Kind))
	}
	value, err := kind.value(secret)
	if err != nil {
		return fleet.Errorf(fleet.Invalid, "The pool's secret does not have the form that storage of kind %q requires.", string(p.Spec.Kind))
	}
	text, err := new(secretXML(p)).Marshal()
	if err != nil {
		return err
	}
	return conn.WrapAction("set the credentials of pool "+p.Name, ps.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		return c.Do(ctx, func(l *golibvirt.Libvirt) error {
			ref, err := l.SecretDefineXML(text, 0)
			if err != nil {
				return err
			}
			return l.SecretSetValue(ref, value, 0)
		})
	}))
}

// removePoolSecret removes the libvirt secret of a released pool.
func (ps *Pools) removePoolSecret(ctx context.Context, c *conn.Conn, p fleet.Pool) error {
	if poolSourcesByKind[p.Spec.Kind].secret == nil {
		return nil
	}
	uuid, err := conn.ParseUUID(fleet.VMID(p.ID))
	if err != nil {
		return err
	}
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
		ref, err := l.SecretLookupByUUID(uuid)
		if err != nil {
			return err
		}
		return l.SecretUndefine(ref)
	})
	if conn.IsLibvirtCode(err, golibvirt.ErrNoSecret) {
		return nil
	}
	return err
}
