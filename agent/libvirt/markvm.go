package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// SetOwnershipMark implements hypervisor.VMs. libvirt writes the metadata into the definition of the running guest and
// the persistent definition without redefining the domain. The guest does not notice.
func (b *Backend) SetOwnershipMark(ctx context.Context, id fleet.VMID, secret string) error {
	const act = "mark the VM"
	unlock, err := b.vmLocks.Lock(ctx, id)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		uuid, err := conn.ParseUUID(id)
		if err != nil {
			return err
		}
		b.domains.invalidate(uuid)
		s, err := b.readObservedDomain(ctx, c, id)
		switch {
		case err != nil:
			return err
		case !s.managed:
			return errUnmanagedDomain()
		case s.metadata.OwnershipMark == secret && s.ownershipMark == secret:
			return nil
		}
		into := golibvirt.DomainAffectConfig
		if s.transient {
			into = golibvirt.DomainAffectLive
		} else if s.live != nil {
			into |= golibvirt.DomainAffectLive
		}
		m := s.metadata
		m.OwnershipMark = secret
		defer b.domains.invalidate(uuid)
		return c.Do(ctx, func(l *golibvirt.Libvirt) error {
			return l.DomainSetMetadata(s.ref, int32(golibvirt.DomainMetadataElement), golibvirt.OptString{m.WithoutNamespace()},
				golibvirt.OptString{domxml.MetadataPrefix}, golibvirt.OptString{domxml.MetadataNamespace}, into)
		})
	}))
}
