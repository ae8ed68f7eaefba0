package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// readyToStart updates a VM's definition with facts known only at the start: the networks' MTUs, the host's USB ports
// and the mediated devices. A VM without NICs and host devices needs no update. Before that, it checks every path that
// the guest would open.
func (b *Backend) readyToStart(ctx context.Context, c *conn, s sighted) error {
	x, err := readXML(ctx, c, s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	if err := b.inPlace(ctx, x); err != nil {
		return err
	}
	if err := b.savedInPlace(ctx, c, s.ref); err != nil {
		return err
	}
	if x.Devices == nil || len(s.kept.nics) == 0 && len(s.kept.parts.HostDevices) == 0 {
		return b.devices.KeepMdevs(string(s.id))
	}
	told, err := tellMTU(ctx, c, x)
	if err != nil {
		return err
	}
	found, err := b.readyDevices(x)
	if err != nil || !told && !found {
		return err
	}
	text, err := textOf(x)
	if err != nil {
		return err
	}
	return c.do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.DomainDefineXML(text)
		return err
	})
}

// savedInPlace checks the paths of a managed save image (virsh managedsave), because a start resumes from it with the
// definition of that time.
func (b *Backend) savedInPlace(ctx context.Context, c *conn, ref golibvirt.Domain) error {
	text, err := call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
		saved, err := l.DomainHasManagedSaveImage(ref, 0)
		if err != nil || saved == 0 {
			return "", err
		}
		return l.DomainManagedSaveGetXMLDesc(ref, 0)
	})
	if err != nil || text == "" {
		return err
	}
	x := &libvirtxml.Domain{}
	if err := x.Unmarshal(text); err != nil {
		return err
	}
	return b.inPlace(ctx, x)
}
