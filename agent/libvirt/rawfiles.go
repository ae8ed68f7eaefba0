package libvirt

import (
	"context"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
)

// readFileFormats reads the definitions of all domains now.
func (b *Backend) readFileFormats(ctx context.Context, c *conn.Conn) (hostfile.Formats, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return hostfile.Formats{}, fmt.Errorf("read the disks of the host's VMs: %w", err)
	}
	return b.findFileUsers(ctx, hostfile.DecisionRecency, all).Formats, nil
}

// readImageSource reads the facts that decide whether an image may be created from a volume. It refuses a raw disk that
// looks like another format, because readers of the copy would use that format.
func (b *Backend) readImageSource(ctx context.Context, c *conn.Conn, p storage.LocalVolume) (hostfile.ImageHeader, error) {
	f, err := b.volumeFile(ctx, c, p)
	if err != nil {
		return hostfile.ImageHeader{}, err
	}
	if f.LooksFormatted() {
		return hostfile.ImageHeader{}, hypervisor.RefuseImageOfRawDisk(p.Name, f.ContentFormat)
	}
	h, err := hostfile.WithinContext(ctx, func() (hostfile.ImageHeader, error) { return hostfile.InspectImage(p.Path()) })
	if err != nil {
		return h, translateReadError(p, err)
	}
	return h, nil
}
