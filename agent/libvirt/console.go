package libvirt

import (
	"context"
	"fmt"
	"net"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// Console implements hypervisor.VMs. It dials the VNC endpoint in the running guest's definition. A managed guest has a
// Unix socket; an unmanaged guest may have a local port. go-libvirt's DomainOpenGraphicsFd does not work.
func (b *Backend) Console(ctx context.Context, id fleet.VMID) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.CallTimeout)
	defer cancel()
	s, err := b.readVM(ctx, id)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
		return nil, errNoDomain(id)
	}
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	if s.live == nil {
		return nil, fmt.Errorf("open console of %s: %w", s.ref.Name, hypervisor.ErrNotRunning)
	}
	if s.vnc.Address == "" {
		return nil, fleet.Errorf(fleet.Conflict, "%s has no VNC display. Add a VNC display to the VM's definition and restart the VM.", s.ref.Name)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, s.vnc.Network, s.vnc.Address)
	if err != nil {
		return nil, fmt.Errorf("open console of %s: %w", s.ref.Name, err)
	}
	return conn, nil
}
