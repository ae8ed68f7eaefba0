package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/network"
)

// prepareGuestStart checks every path that the guest would open. Then it updates the VM's definition with values known
// only at the start: the networks' MTUs, the host's USB ports and the mediated devices.
func (b *Backend) prepareGuestStart(ctx context.Context, c *conn.Conn, s observedDomain) error {
	x, err := conn.ReadDefinition(ctx, c, s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	if err := b.checkDefinedPaths(ctx, x); err != nil {
		return err
	}
	if err := b.checkManagedSave(ctx, c, s.ref); err != nil {
		return err
	}
	if x.Devices == nil || len(s.persistent.NICs) == 0 && len(s.persistent.FieldValues.HostDevices) == 0 {
		return b.devices.RemoveMdevsExcept(string(s.id))
	}
	mtuChanged, err := network.SetNICMTUs(ctx, c, x)
	if err != nil {
		return err
	}
	devicesChanged, err := b.prepareHostDevices(x)
	if err != nil || !mtuChanged && !devicesChanged {
		return err
	}
	text, err := domxml.DefinitionText(x)
	if err != nil {
		return err
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.DomainDefineXML(text)
		return err
	})
}

// checkManagedSave checks the paths of a managed save image (virsh managedsave), because a start resumes from the image
// with the definition that the image contains.
func (b *Backend) checkManagedSave(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) error {
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
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
	return b.checkDefinedPaths(ctx, x)
}
