package libvirt

import (
	"context"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
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

// withFreeName calls f with the first candidate name that no other domain has. If another domain takes that name before
// f ends, withFreeName tries the next candidate.
func (a *applyRun) withFreeName(ctx context.Context, f func(name string) error) error {
	for _, name := range hypervisor.DomainNames(a.in.VM.Name, a.in.Project, a.in.VM.ID) {
		taken, err := a.isNameTaken(ctx, name)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		failed := f(name)
		if failed == nil || !conn.IsLibvirtError(failed) {
			return failed
		}
		// Another domain took the name. libvirt's error would name that domain, which may belong to another project.
		if taken, err = a.isNameTaken(ctx, name); err != nil || !taken {
			return failed
		}
	}
	return fleet.Errorf(fleet.Conflict, "Other domains on the host have all names that this VM's domain could get. Give the VM another name.")
}

// isNameTaken reports whether another domain has the name.
func (a *applyRun) isNameTaken(ctx context.Context, name string) (bool, error) {
	other, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.Domain, error) { return l.DomainLookupByName(name) })
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return false, nil
	case err != nil:
		return false, err
	}
	return conn.FormatUUID(other.UUID) != a.in.VM.ID, nil
}

// renameDomain gives the domain its pending name; with choose set, it chooses a new name. A running guest keeps the old
// name until it is off, because libvirt renames only inactive domains.
func (a *applyRun) renameDomain(ctx context.Context, s *observedDomain, was hypervisor.AppliedRecord, choose bool) (domain, old string, err error) {
	wanted := was.PendingDomainName(s.ref.Name)
	if !choose && wanted == "" {
		return was.Domain, "", nil
	}
	err = a.withFreeName(ctx, func(name string) error {
		domain = name
		if name == s.ref.Name {
			return nil
		}
		if s.live != nil {
			old = s.ref.Name
			return nil
		}
		err := a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.DomainRename(s.ref, golibvirt.OptString{name}, 0)
			return err
		})
		if err != nil {
			return fmt.Errorf("rename the domain: %w", err)
		}
		s.ref.Name = name
		return nil
	})
	return domain, old, err
}
