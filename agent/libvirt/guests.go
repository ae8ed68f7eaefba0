package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/guest"
	"quantix/internal/fleet"
)

// FreezeGuest implements hypervisor.Guests.
func (b *Backend) FreezeGuest(ctx context.Context, id fleet.VMID) error {
	return b.agents.FreezeGuest(ctx, id)
}

// ThawGuest implements hypervisor.Guests.
func (b *Backend) ThawGuest(ctx context.Context, id fleet.VMID) error {
	return b.agents.ThawGuest(ctx, id)
}

// SetGuestPassword implements hypervisor.Guests.
func (b *Backend) SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error {
	return b.agents.SetGuestPassword(ctx, id, user, password)
}

// SyncGuestTime implements hypervisor.Guests.
func (b *Backend) SyncGuestTime(ctx context.Context, id fleet.VMID) error {
	return b.agents.SyncGuestTime(ctx, id)
}

// TrimGuest implements hypervisor.Guests.
func (b *Backend) TrimGuest(ctx context.Context, id fleet.VMID) error {
	return b.agents.TrimGuest(ctx, id)
}

// RunInGuest implements hypervisor.Guests.
func (b *Backend) RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (fleet.GuestOutput, error) {
	return b.agents.RunInGuest(ctx, id, program)
}

// GuestReadings implements hypervisor.Guests.
func (b *Backend) GuestReadings(ctx context.Context) ([]hypervisor.GuestReading, error) {
	return b.agents.GuestReadings(ctx)
}

// readGuest reads the domain of a managed VM for its guest agent. It refuses a missing or unmanaged domain.
func (b *Backend) readGuest(ctx context.Context, c *conn.Conn, id fleet.VMID) (guest.Domain, error) {
	s, err := b.readObservedDomain(ctx, c, id)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return guest.Domain{}, errNoDomain(id)
	case err != nil:
		return guest.Domain{}, err
	case !s.managed:
		return guest.Domain{}, errUnmanagedDomain()
	}
	return s.guestDomain(), nil
}

// guestDomain returns the domain as its guest agent needs it.
func (s observedDomain) guestDomain() guest.Domain {
	return guest.Domain{ID: s.id, Ref: s.ref, State: golibvirt.DomainState(s.state), Managed: s.managed, Live: s.live, AgentConnected: s.agentConnected, CID: s.cid}
}

// guestDomainsOf returns the domains as their guest agents need them.
func guestDomainsOf(all []observedDomain) []guest.Domain {
	out := make([]guest.Domain, len(all))
	for i, s := range all {
		out[i] = s.guestDomain()
	}
	return out
}
