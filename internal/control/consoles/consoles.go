// Package consoles has the use cases of consoles: tickets that open them, and sessions.
package consoles

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

// Consoles has the use cases of consoles. Its exported methods are use cases of control.Control.
type Consoles struct {
	store      *store.Store
	discovered DiscoveredVMs
	pairURL    string // URL of this portal, which the hosts of its consoles dial; empty: the URL that the agent uses
}

// DiscoveredVMs reads VMs that Quantix does not manage.
type DiscoveredVMs interface {
	// DiscoveredVM reads an unmanaged domain of a host as the host last reported it.
	DiscoveredVM(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, id fleet.VMID) (fleet.DiscoveredVM, error)
}

// New returns the Consoles of the store.
func New(s *store.Store, discovered DiscoveredVMs, pairURL string) *Consoles {
	return &Consoles{s, discovered, pairURL}
}

// maxTickets limits a person's unused tickets.
const maxTickets = 32

// ConsoleTicket lets one browser session open one console once, within 30 s.
type ConsoleTicket struct {
	ID     fleet.PairID `json:"id"`
	Secret string       `json:"secret"` // 256 bit, base64url; only its hash is stored
}

// OpenConsole makes a ticket for a VM's console. The host's job is queued only when the browser redeems the ticket,
// because the job names the portal that holds the browser's connection.
func (c *Consoles) OpenConsole(ctx context.Context, a fleet.Actor, id fleet.VMID) (ConsoleTicket, error) {
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

// OpenDiscoveredConsole makes a ticket for the console of a domain that Quantix does not manage: see OpenConsole.
func (c *Consoles) OpenDiscoveredConsole(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID) (ConsoleTicket, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return ConsoleTicket{}, err
	}
	if a.UserID == "" || a.Session == "" {
		return ConsoleTicket{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	ticket := newConsoleTicket()
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := c.discovered.DiscoveredVM(ctx, q, a, host, id)
		if err != nil {
			return err
		}
		if ok, why := vm.Allows(fleet.ActConsole); !ok {
			return fleet.RefusalError(why)
		}
		if err := addConsoleTicket(ctx, q, a, ticket, host, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "found.console", fleet.SubjectDiscoveredVM(host, id), vm.Name, "on "+vm.HostName)
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

// RedeemConsole uses up a ticket, begins a session, asks the host to dial this portal, and returns the browser's side of
// the relay. All bad tickets give the same error: unknown, used, expired, or made for another user or browser session.
func (c *Consoles) RedeemConsole(ctx context.Context, a fleet.Actor, id fleet.PairID, secret string) (ConsoleEnd, error) {
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
		of, err := c.target(ctx, q, a, out)
		if err != nil {
			return err
		}
		if out.End, err = agentapi.ConsoleRelayTicket(id, row.UserID, row.Session, of.host).Admit(relay.PartyOf(a)); err != nil {
			return err
		}
		if err := q.QueueConsole(ctx, db.QueueConsoleParams{
			ID: fleet.NewID[fleet.JobID](), HostID: of.host, Subject: of.subject, Args: fleet.JobArgs{Console: id, PortalURL: c.pairURL}, Generation: of.generation,
		}); err != nil {
			return err
		}
		return beginSession(ctx, q, a, id, of)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows), fleet.CodeOf(err) == fleet.NotFound, fleet.CodeOf(err) == fleet.Forbidden:
		return ConsoleEnd{}, refused
	case err != nil:
		return ConsoleEnd{}, err
	}
	return out, nil
}

// target is the VM of a console, managed or not.
type target struct {
	subject    fleet.Subject
	vm         fleet.VMID
	name       string
	project    fleet.ProjectID // empty: not managed
	host       fleet.HostID
	generation int64
}

// target checks that the actor may use the console of the VM, and that the VM has one now.
func (c *Consoles) target(ctx context.Context, q *db.Queries, a fleet.Actor, of ConsoleEnd) (target, error) {
	if of.DiscoveredOn != "" {
		if err := policy.Check(a, policy.InfraChange, ""); err != nil {
			return target{}, err
		}
		vm, err := c.discovered.DiscoveredVM(ctx, q, a, of.DiscoveredOn, of.VM)
		if err != nil {
			return target{}, err
		}
		if ok, why := vm.Allows(fleet.ActConsole); !ok {
			return target{}, fleet.RefusalError(why)
		}
		return target{subject: fleet.SubjectDiscoveredVM(of.DiscoveredOn, of.VM), vm: of.VM, name: vm.Name, host: of.DiscoveredOn}, nil
	}
	vm, err := store.GetVM(ctx, q, a, of.VM)
	if err != nil {
		return target{}, err
	}
	if err := policy.Check(a, policy.VMUse, vm.ProjectID); err != nil {
		return target{}, err
	}
	if ok, why := vm.Allows(fleet.ActConsole); !ok {
		return target{}, fleet.RefusalError(why)
	}
	return target{subject: fleet.SubjectVM(vm.ID), vm: vm.ID, name: vm.Name, project: vm.ProjectID, host: vm.HostID, generation: vm.Generation}, nil
}
