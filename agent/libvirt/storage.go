package libvirt

import (
	"context"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// ApplyPool implements hypervisor.Storage.
func (b *Backend) ApplyPool(ctx context.Context, pool fleet.Pool) error {
	return b.pools.ApplyPool(ctx, pool)
}

// ReapplyPool implements hypervisor.Storage.
func (b *Backend) ReapplyPool(ctx context.Context, pool fleet.Pool) error {
	return b.pools.ReapplyPool(ctx, pool)
}

// ReleasePool implements hypervisor.Storage. It removes the marker, except from a pool that other hosts share.
func (b *Backend) ReleasePool(ctx context.Context, pool fleet.Pool) error {
	return b.pools.ReleasePool(ctx, pool)
}

// SetPoolSecret implements hypervisor.Storage. libvirt never returns the value of a private secret. The secret survives
// restarts of the host, because guests with autostart need it.
func (b *Backend) SetPoolSecret(ctx context.Context, p fleet.Pool, secret string) error {
	return b.pools.SetPoolSecret(ctx, p, secret)
}

// poolGuests returns the guests of the host with their files.
func (b *Backend) poolGuests(ctx context.Context, c *conn.Conn) ([]storage.Guest, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]storage.Guest, len(all))
	for i, s := range all {
		out[i] = storage.Guest{Name: s.ref.Name, Managed: s.managed, Files: s.allFiles()}
	}
	return out, nil
}
