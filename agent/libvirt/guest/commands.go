package guest

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// Time limits of guest agent commands. A freeze flushes the disks first, which takes long on a busy disk.
const (
	guestFreezeLimit  = 30 * time.Second
	guestCommandLimit = 15 * time.Second
	guestTrimLimit    = 10 * time.Minute
)

// FreezeGuest implements hypervisor.Guests.
func (as *Agents) FreezeGuest(ctx context.Context, id fleet.VMID) error {
	return as.withGuestAgent(ctx, id, "freeze", func(ask agentCaller, s Domain) error {
		state, err := callAgent[string](ask, agentAnswerTimeout, "guest-fsfreeze-status", nil)
		if err != nil || state == "frozen" {
			return err
		}
		n, err := callAgent[int](ask, guestFreezeLimit, "guest-fsfreeze-freeze", nil)
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.Conflict, "The guest has no file system that can be frozen.")
		}
		as.updateStatus(s, func(g *fleet.GuestStatus) { g.Frozen = true })
		return nil
	})
}

// ThawGuest implements hypervisor.Guests.
func (as *Agents) ThawGuest(ctx context.Context, id fleet.VMID) error {
	err := as.withGuestAgent(ctx, id, "thaw", func(ask agentCaller, s Domain) error {
		_, err := callAgent[int](ask, guestFreezeLimit, "guest-fsfreeze-thaw", nil)
		if err == nil || isCommandUnavailable(err) {
			as.updateStatus(s, func(g *fleet.GuestStatus) { g.Frozen = false })
			return nil
		}
		return err
	})
	if errors.Is(err, hypervisor.ErrNotRunning) {
		return nil
	}
	return err
}

// SetGuestPassword implements hypervisor.Guests.
func (as *Agents) SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error {
	return as.withGuestAgent(ctx, id, "set a password in", func(ask agentCaller, s Domain) error {
		_, err := callAgent[struct{}](ask, guestCommandLimit, "guest-set-user-password", map[string]any{
			"username": user, "password": base64.StdEncoding.EncodeToString([]byte(password)), "crypted": false,
		})
		return err
	})
}

// SyncGuestTime implements hypervisor.Guests.
func (as *Agents) SyncGuestTime(ctx context.Context, id fleet.VMID) error {
	return as.withGuestAgent(ctx, id, "set the clock of", func(ask agentCaller, s Domain) error {
		_, err := callAgent[struct{}](ask, guestCommandLimit, "guest-set-time", map[string]any{"time": time.Now().UnixNano()})
		as.updateStatus(s, func(*fleet.GuestStatus) {})
		return err
	})
}

// TrimGuest implements hypervisor.Guests.
func (as *Agents) TrimGuest(ctx context.Context, id fleet.VMID) error {
	return as.withGuestAgent(ctx, id, "trim", func(ask agentCaller, s Domain) error {
		_, err := callAgent[struct{}](ask, guestTrimLimit, "guest-fstrim", nil)
		as.updateStatus(s, func(*fleet.GuestStatus) {})
		return err
	})
}

// withGuestAgent runs f with the agent of a running, managed guest, over a connection of its own. It does not take the
// VM's lock, because a forced stop must remain possible while a guest is slow.
func (as *Agents) withGuestAgent(ctx context.Context, id fleet.VMID, verb string, f func(agentCaller, Domain) error) error {
	return as.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		s, err := as.read(ctx, c, id)
		switch {
		case err != nil:
			return conn.WrapAction(verb, err)
		case s.Live == nil:
			return hypervisor.ErrNotRunning
		case s.Live.FieldValues.Devices.GuestAgent == "none":
			return hypervisor.NoGuestAgentChannelError()
		case !s.AgentConnected:
			return hypervisor.NoGuestAgentAnswerError()
		case s.State != golibvirt.DomainRunning:
			return fleet.Errorf(fleet.Conflict, "The guest is paused, so the guest agent cannot answer. Resume the VM first.")
		}
		return conn.WrapAction(verb+" "+s.Ref.Name, addNoAgentAdvice(f(newAgentCaller(ctx, c, s), s)))
	})
}
