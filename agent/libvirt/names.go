package libvirt

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

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
