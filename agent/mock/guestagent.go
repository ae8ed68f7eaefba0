package mock

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// agentStatus returns the guest agent's status. It returns nil if the guest is off. The caller holds the host's lock.
func (g *guest) agentStatus() *fleet.GuestStatus {
	switch {
	case !g.isRunning():
		return nil
	case g.live.spec.Devices.GuestAgent == "none":
		return &fleet.GuestStatus{Agent: fleet.AgentNone}
	case nameContains(g.name, NoAgent):
		return &fleet.GuestStatus{Agent: fleet.AgentNotResponding}
	}
	return &fleet.GuestStatus{
		Agent: fleet.AgentAnswers, Version: "7.2.19", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-40-cloud-amd64", Hostname: g.applied.Name, Frozen: g.frozen,
	}
}

// GuestReadings implements hypervisor.Guests. A guest's file system fills slowly and is then emptied.
func (h *Host) GuestReadings(ctx context.Context) ([]hypervisor.GuestReading, error) {
	if err := h.simulateCall(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	var out []hypervisor.GuestReading
	for _, g := range h.guests {
		if !g.managed || !g.isRunning() || g.agentStatus().Agent != fleet.AgentAnswers || g.power != fleet.Running {
			continue
		}
		seed := hashText(string(g.id))
		total := int64(20 << 30)
		used := total / 100 * int64(25+seed%60) // percent
		out = append(out, hypervisor.GuestReading{At: now.Truncate(10 * time.Second), GuestReading: fleet.GuestReading{
			ID: g.id, ClockMs: int64(seed % 40), ClockBehind: seed%2 == 0, Users: []fleet.GuestUser{{Name: "admin"}},
			FileSystems: []fleet.GuestFileSystem{
				{Path: "/", Type: "ext4", UsedBytes: used, TotalBytes: total},
				{Path: "/boot/efi", Type: "vfat", UsedBytes: 6 << 20, TotalBytes: 124 << 20},
			},
		}})
	}
	slices.SortFunc(out, func(a, b hypervisor.GuestReading) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// FreezeGuest implements hypervisor.Guests.
func (h *Host) FreezeGuest(ctx context.Context, id fleet.VMID) error {
	return h.withGuestAgent(ctx, id, func(g *guest) error {
		if len(g.live.spec.Disks) == 0 {
			return fleet.Errorf(fleet.Conflict, "The guest has no file system that can be frozen.")
		}
		g.frozen = true
		return nil
	})
}

// ThawGuest implements hypervisor.Guests.
func (h *Host) ThawGuest(ctx context.Context, id fleet.VMID) error {
	if g, on, err := h.guestCopy(id); err != nil || !on || g.power == fleet.Stopped {
		return err
	}
	return h.withGuestAgent(ctx, id, func(g *guest) error {
		g.frozen = false
		return nil
	})
}

// SetGuestPassword implements hypervisor.Guests.
func (h *Host) SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error {
	return h.withGuestAgent(ctx, id, func(g *guest) error {
		g.passwords = maps.Clone(g.passwords)
		if g.passwords == nil {
			g.passwords = map[string]string{}
		}
		g.passwords[user] = password
		return nil
	})
}

// SyncGuestTime implements hypervisor.Guests.
func (h *Host) SyncGuestTime(ctx context.Context, id fleet.VMID) error {
	return h.withGuestAgent(ctx, id, func(*guest) error { return nil })
}

// TrimGuest implements hypervisor.Guests.
func (h *Host) TrimGuest(ctx context.Context, id fleet.VMID) error {
	return h.withGuestAgent(ctx, id, func(*guest) error { return nil })
}

// withGuestAgent runs a guest agent command.
func (h *Host) withGuestAgent(ctx context.Context, id fleet.VMID, f func(*guest) error) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		says := g.agentStatus()
		switch {
		case says == nil:
			return hypervisor.ErrNotRunning
		case says.Agent == fleet.AgentNone:
			return hypervisor.NoGuestAgentChannelError()
		case says.Agent != fleet.AgentAnswers:
			return hypervisor.NoGuestAgentAnswerError()
		case g.power != fleet.Running:
			return fleet.Errorf(fleet.Conflict, "The guest is paused, so its agent cannot answer. Resume the VM first.")
		}
		return f(g)
	})
}

// GuestFrozen reports whether a guest is frozen, for tests.
func (h *Host) GuestFrozen(id fleet.VMID) bool {
	g, _, err := h.guestCopy(id)
	return err == nil && g.frozen
}

// GuestPassword returns the password set for the guest's user, for tests.
func (h *Host) GuestPassword(id fleet.VMID, user string) string {
	g, _, err := h.guestCopy(id)
	if err != nil {
		return ""
	}
	return g.passwords[user]
}
