package relay

import "quantix/internal/fleet"

// Side is an end of a pair.
type Side int

// The sides: who asked for the pair, and who was asked.
const (
	Asker Side = iota
	Answerer
)

func (s Side) String() string { return [2]string{"asker", "answerer"}[s] }

// Kind names what pairs carry.
type Kind string

// Console is a VM's screen: a person's session asks, the VM's host answers.
const Console Kind = "console"

// Upload is a file that a person sends: the portal itself hands it on for their session, the host answers.
const Upload Kind = "upload"

// Transfer is a file on its way between two hosts that do not reach each other: the sender asks, the receiver answers. What goes by it is
// theirs: they have made a secret of it that the portal does not know.
const Transfer Kind = "transfer"

// Download is a volume that a host sends: the portal itself takes it for a person's session, the host answers.
const Download Kind = "download"

// Party is who may bring an end: a person by a session or token of theirs, or a host by its certificate.
type Party struct {
	User    fleet.UserID
	Session string // fleet.Actor.Session; hosts have none here: what is open outlives an agent's session
	Host    fleet.HostID
}

// PartyOf is whom an actor counts as.
func PartyOf(a fleet.Actor) Party {
	if a.HostID != "" {
		return Party{Host: a.HostID}
	}
	return Party{User: a.UserID, Session: a.Session}
}

func (p Party) named() bool { return p.Host != "" || p.User != "" && p.Session != "" }

// Ticket says what a pair carries and for whom. Both ends come under the same one.
type Ticket struct {
	ID      fleet.PairID
	Kind    Kind
	Parties [2]Party // by Side
}

// End is one end of a pair whose party has been let in. It is small, for it lies on the stack of each open connection.
type End struct {
	ticket *Ticket
	side   Side
}

// ID names the pair.
func (e End) ID() fleet.PairID { return e.ticket.ID }

// Side says which end it is.
func (e End) Side() Side { return e.side }

// Kind says what the pair carries.
func (e End) Kind() Kind { return e.ticket.Kind }

// fits reports why the end cannot meet the one that waits.
func (e End) fits(other End) error {
	switch {
	case *e.ticket != *other.ticket:
		return ErrForeign
	case e.side == other.side:
		return ErrTaken
	}
	return nil
}

// Admit lets a party in at the side that is its own, and tells anybody else that nobody waits. It is the one gate: nothing
// else makes an End, and a Broker takes nothing else.
func (t Ticket) Admit(p Party) (End, error) {
	if p.named() && t.Parties[Asker] != t.Parties[Answerer] {
		for side, party := range t.Parties {
			if party == p {
				return End{&t, Side(side)}, nil
			}
		}
	}
	return End{}, fleet.Errorf(fleet.NotFound, "Nobody waits for this connection any more.")
}
