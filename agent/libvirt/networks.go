package libvirt

import (
	"context"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/network"
	"quantix/internal/fleet"
)

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
func (b *Backend) ApplySecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
	return b.filters.ApplySecurityGroup(ctx, g)
}

// ReleaseSecurityGroup implements hypervisor.Firewall.
func (b *Backend) ReleaseSecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
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
