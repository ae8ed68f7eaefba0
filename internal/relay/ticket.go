package relay

import "quantix/internal/fleet"

// Side is one of the two ends of a relay.
type Side int

// The two sides: Requester requested the relay, and Answerer was called.
const (
	Requester Side = iota
	Answerer
)

func (s Side) String() string { return [2]string{"asker", "answerer"}[s] }

// Kind is the content of a relay.
type Kind string

// Console is a VM's screen, between a user's session and the VM's host.
const Console Kind = "console"

// Upload is a file that a user sends. The portal reads it in the user's session and forwards it to the host.
const Upload Kind = "upload"

// Transfer is a file that one host sends to another host that it cannot reach directly. The sender is the Requester, the
// receiver the Answerer. The portal does not know the key that encrypts the file.
const Transfer Kind = "transfer"

// Download is a volume that a host sends. The portal reads it for a user's session.
const Download Kind = "download"

// Party identifies who may use a side: a user with a session or API token, or a host with its certificate.
type Party struct {
	User    fleet.UserID
	Session string // as fleet.Actor.Session; empty for hosts, because a relay outlives an agent's session
	Host    fleet.HostID
}

// PartyOf returns the party of an actor.
func PartyOf(a fleet.Actor) Party {
	if a.HostID != "" {
		return Party{Host: a.HostID}
	}
	return Party{User: a.UserID, Session: a.Session}
}

func (p Party) isComplete() bool { return p.Host != "" || p.User != "" && p.Session != "" }

// Ticket describes a relay and its two parties. Both ends must present the same ticket.
type Ticket struct {
	ID      fleet.PairID
	Kind    Kind
	Parties [2]Party // the two parties, indexed by Side
}

// End is a side of a relay after admission. It is small because the stack of each open connection contains one.
type End struct {
	ticket *Ticket
	side   Side
}

// ID identifies the relay.
func (e End) ID() fleet.PairID { return e.ticket.ID }

// Side returns the end's side.
func (e End) Side() Side { return e.side }

// Kind returns the content of the relay.
func (e End) Kind() Kind { return e.ticket.Kind }

// checkMatch returns an error if the two ends must not be connected.
func (e End) checkMatch(other End) error {
	switch {
	case *e.ticket != *other.ticket:
		return ErrOtherTicket
	case e.side == other.side:
		return ErrTaken
	}
	return nil
}

// Admit returns the End of a party that the ticket names; for any other party the error is NotFound. Only Admit creates
// an End, and a Broker accepts nothing else.
func (t Ticket) Admit(p Party) (End, error) {
	if p.isComplete() && t.Parties[Requester] != t.Parties[Answerer] {
		for side, party := range t.Parties {
			if party == p {
				return End{&t, Side(side)}, nil
			}
		}
	}
	return End{}, fleet.Errorf(fleet.NotFound, "This connection was not requested, has ended, or belongs to another user or host.")
}
