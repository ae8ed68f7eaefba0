package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// readyToStart has the definition of a VM that is about to start say what only this moment tells: how large packets its networks take, what is
// plugged in at the host's ports, which mediated devices are made for it. One that has no cards and no devices of its host says all already. Before
// that, every path that the guest would start with is looked at.
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

// savedInPlace looks at the paths of memory that somebody saved (virsh managedsave): a start goes on from it, with the definition of then.
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
