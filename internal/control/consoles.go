package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
)

// maxTickets limits a person's unused tickets.
const maxTickets = 32

// ConsoleTicket lets one browser session open one console once, within 30 s.
type ConsoleTicket struct {
	ID     fleet.PairID `json:"id"`
	Secret string       `json:"secret"` // 256 bit, base64url; only its hash is stored
}

// OpenConsole makes a ticket for a VM's console. The host's job is queued only when the browser redeems the ticket,
// because the job names the portal that holds the browser's connection.
func (c *Control) OpenConsole(ctx context.Context, a fleet.Actor, id fleet.VMID) (ConsoleTicket, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return ConsoleTicket{}, err
	}
	if a.UserID == "" || a.Session == "" {
		return ConsoleTicket{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return ConsoleTicket{}, err
	}
	ticket := newConsoleTicket()
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.GetVM(ctx, q, a, id)
		if err != nil {
			return err
		}
		if err := policy.Check(a, policy.VMUse, vm.ProjectID); err != nil {
			return err
		}
		if ok, why := vm.Allows(fleet.ActConsole); !ok {
			return fleet.RefusalError(why)
		}
		if err := addConsoleTicket(ctx, q, a, ticket, "", id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.console", fleet.SubjectVM(id), vm.Name, "")
	})
	if err != nil {
		return ConsoleTicket{}, err
	}
	return ticket, nil
}

func newConsoleTicket() ConsoleTicket {
	var secret [32]byte
	rand.Read(secret[:])
	return ConsoleTicket{fleet.NewID[fleet.PairID](), base64.RawURLEncoding.EncodeToString(secret[:])}
}

// addConsoleTicket stores a ticket for the console of a VM or, with a host, of an unmanaged domain on that host.
func addConsoleTicket(ctx context.Context, q *db.Queries, a fleet.Actor, ticket ConsoleTicket, host fleet.HostID, id fleet.VMID) error {
	added, err := q.AddTicket(ctx, db.AddTicketParams{
		Hash: hashTicketSecret(ticket.Secret), ConsoleID: ticket.ID, FoundOn: string(host), ID: string(id), UserID: a.UserID, Session: a.Session, Max: maxTickets,
	})
	if err == nil && added == 0 {
		err = fleet.Errorf(fleet.TooMany, "You have requested %d consoles that are not open yet. Wait half a minute and try again.", maxTickets)
	}
	return err
}

func hashTicketSecret(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

// ConsoleEnd is the browser's side of a console connection, and the console's VM.
type ConsoleEnd struct {
	relay.End
	VM           fleet.VMID
	DiscoveredOn fleet.HostID // host of an unmanaged VM; empty: a VM of Quantix
}

// RedeemConsole uses up a ticket, asks the host to dial this portal, and returns the browser's side of the relay. All
// bad tickets give the same error: unknown, used, expired, or made for another user or browser session.
func (c *Control) RedeemConsole(ctx context.Context, a fleet.Actor, id fleet.PairID, secret string) (ConsoleEnd, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return ConsoleEnd{}, err
	}
	refused := fleet.Errorf(fleet.NotFound, "This console link has been used or is too old. Open the console again.")
	if store.CheckID(id, "console") != nil {
		return ConsoleEnd{}, refused
	}
	var out ConsoleEnd
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.RedeemTicket(ctx, db.RedeemTicketParams{Hash: hashTicketSecret(secret), ConsoleID: id})
		if err != nil {
			return err
		}
		out.VM, out.DiscoveredOn = fleet.VMID(row.ID), fleet.HostID(row.FoundOn)
		if out.DiscoveredOn != "" {
			if out.End, err = agentapi.ConsoleRelayTicket(id, row.UserID, row.Session, out.DiscoveredOn).Admit(relay.PartyOf(a)); err != nil {
				return err
			}
			return c.queueDiscoveredConsole(ctx, q, a, id, out.DiscoveredOn, out.VM)
		}
		view, err := store.GetVM(ctx, q, a, out.VM)
		if err != nil {
			return err
		}
		if out.End, err = agentapi.ConsoleRelayTicket(id, row.UserID, row.Session, view.HostID).Admit(relay.PartyOf(a)); err != nil {
			return err
		}
		if err := policy.Check(a, policy.VMUse, view.ProjectID); err != nil {
			return err
		}
		if ok, why := view.Allows(fleet.ActConsole); !ok {
			return fleet.RefusalError(why)
		}
		return q.QueueConsole(ctx, db.QueueConsoleParams{
			ID: fleet.NewID[fleet.JobID](), HostID: view.HostID, Subject: fleet.SubjectVM(view.ID),
			Args: fleet.JobArgs{Console: id, PortalURL: c.opts.PairURL}, Generation: view.Generation,
		})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows), fleet.CodeOf(err) == fleet.NotFound, fleet.CodeOf(err) == fleet.Forbidden:
		return ConsoleEnd{}, refused
	case err != nil:
		return ConsoleEnd{}, err
	}
	return out, nil
}
