package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// readyToStart has the definition of a VM that is about to start say what only this moment tells: how large packets its networks take, what is
// plugged in at the host's ports, which mediated devices are made for it. One that has no cards and no devices of its host says all already.
func (b *Backend) readyToStart(ctx context.Context, c *conn, s sighted) error {
	if len(s.kept.nics) == 0 && len(s.kept.parts.HostDevices) == 0 {
		return b.devices.KeepMdevs(string(s.id))
	}
	x, err := readXML(ctx, c, s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil || x.Devices == nil {
		return err
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
