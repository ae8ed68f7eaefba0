package libvirt

import (
	"context"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// baseDefinition returns the base definition of a VM without a domain on this host. It refuses a VM that this host
// cannot run.
func (a *applyRun) baseDefinition(ctx context.Context) (*libvirtxml.Domain, error) {
	caps := a.capabilityWatch.Read(ctx, capabilityMaxAge, capabilityVMTimeout, a.readCapabilities)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !caps.Known && caps.Err != nil:
		return nil, fmt.Errorf("read the host's virtualization capabilities: %w", caps.Err)
	case !caps.Known:
		return nil, fleet.Errorf(fleet.Unavailable, "libvirt is still reading the host's virtualization capabilities. Try again in a minute.")
	case len(caps.Value.accelerators) == 0:
		return nil, fleet.Errorf(fleet.Conflict, "libvirt finds no QEMU for %s guests on this host. Install qemu-system-x86 or qemu-kvm.", caps.Value.arch)
	case a.in.VM.Spec.Firmware == fleet.UEFI && !slices.Contains(caps.Value.firmware, fleet.UEFI):
		return nil, fleet.Errorf(fleet.Conflict, "The host has no UEFI firmware for guests. Install ovmf (edk2-ovmf), or choose BIOS.")
	}
	best, machine := caps.Value.accelerators[0], domxml.MachineTypeOf(a.in.VM.Spec)
	if !slices.Contains(best.Machines, machine) {
		return nil, fleet.Errorf(fleet.Conflict, "QEMU on this host does not support the machine type %s. Choose another machine type.", machine)
	}
	return domxml.NewDefinition(a.in.VM.ID, caps.Value.arch, machine, best), nil
}

// defineDomain writes the definition to libvirt and drops the cached one.
func (a *applyRun) defineDomain(ctx context.Context, x *libvirtxml.Domain) error {
	text, err := domxml.DefinitionText(x)
	if err != nil {
		return err
	}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		ref, err := l.DomainDefineXML(text)
		if err == nil {
			a.domains.invalidate(ref.UUID)
		}
		return err
	})
}

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
		return setMetadata(ctx, c, s, m.WithoutNamespace(), into)
	}))
}
