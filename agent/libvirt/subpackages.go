package libvirt

import (
	"context"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
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

// ApplyNetwork implements hypervisor.Networks.
func (b *Backend) ApplyNetwork(ctx context.Context, n fleet.Network) error {
	return b.networks.ApplyNetwork(ctx, n)
}

// ReapplyNetwork implements hypervisor.Networks.
func (b *Backend) ReapplyNetwork(ctx context.Context, n fleet.Network) error {
	return b.networks.ReapplyNetwork(ctx, n)
}

// ReleaseNetwork implements hypervisor.Networks.
func (b *Backend) ReleaseNetwork(ctx context.Context, n fleet.Network) error {
	return b.networks.ReleaseNetwork(ctx, n)
}

// ApplySecurityGroup implements hypervisor.Firewall.
func (b *Backend) ApplySecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	return b.filters.ApplySecurityGroup(ctx, g)
}

// ReleaseSecurityGroup implements hypervisor.Firewall.
func (b *Backend) ReleaseSecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	return b.filters.ReleaseSecurityGroup(ctx, g)
}

// FilterCounts implements hypervisor.Telemetry.
func (b *Backend) FilterCounts(ctx context.Context) ([]hypervisor.NICPacketCounts, error) {
	return b.filters.FilterCounts(ctx)
}

// networkGuests returns the guests of the host with their NICs.
func (b *Backend) networkGuests(ctx context.Context, c *conn.Conn) ([]network.Guest, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]network.Guest, len(all))
	for i, s := range all {
		out[i] = network.Guest{Ref: s.ref, Persistent: s.persistent, Live: s.live}
	}
	return out, nil
}
