package relay

import (
	"errors"
	"testing"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

func TestRelayTicketAdmitsOnlyListedParties(t *testing.T) {
	t.Parallel()
	ann, h1, h2 := fleet.Actor{UserID: "ann", Session: "s1"}, fleet.Actor{HostID: "h1", Session: "of its agent"}, fleet.Actor{HostID: "h2"}
	console := Ticket{"c", Console, [2]Party{PartyOf(ann), PartyOf(h1)}}
	hosts := Ticket{"m", "migration", [2]Party{PartyOf(h1), PartyOf(h2)}}
	for name, c := range map[string]struct {
		ticket Ticket
		who    fleet.Actor
		side   Side
		in     bool
	}{
		"asking person":                         {console, ann, Requester, true},
		"answering host":                        {console, h1, Answerer, true},
		"answering host in a new agent session": {console, fleet.Actor{HostID: "h1", Session: "another"}, Answerer, true},
		"other session of the person":           {console, fleet.Actor{UserID: "ann", Session: "s2"}, 0, false},
		"other person with that session":        {console, fleet.Actor{UserID: "bob", Session: "s1"}, 0, false},
		"person without session":                {console, fleet.Actor{UserID: "ann"}, 0, false},
		"other host":                            {console, h2, 0, false},
		"host with a session":                   {console, fleet.Actor{HostID: "h2", UserID: "ann", Session: "s1"}, 0, false},
		"no actor":                              {console, fleet.Actor{}, 0, false},
		"no actor, ticket without parties":      {Ticket{ID: "x"}, fleet.Actor{}, 0, false},
		"no actor, ticket with one party":       {Ticket{ID: "x", Parties: [2]Party{PartyOf(ann)}}, fleet.Actor{}, 0, false},
		"sending host":                          {hosts, h1, Requester, true},
		"receiving host":                        {hosts, h2, Answerer, true},
		"person, ticket for two hosts":          {hosts, ann, 0, false},
		"host as both parties":                  {Ticket{"m", "migration", [2]Party{PartyOf(h1), PartyOf(h1)}}, h1, 0, false},
	} {
		end, err := c.ticket.Admit(PartyOf(c.who))
		switch {
		case !c.in && fleet.CodeOf(err) != fleet.NotFound:
			t.Errorf("%s: admitted as %s, %v", name, end.side, err)
		case c.in && (err != nil || end.side != c.side || *end.ticket != c.ticket):
			t.Errorf("%s: %+v, %v", name, end, err)
		}
	}
}

// An end is not connected with the waiting end if their tickets differ because the VM has moved to another host.
func TestConnectionsWithDifferentTicketsNotSpliced(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	asker := p.dial(t, "asker", "c")
	p.waitForCounts(t, 0, 1)
	if closeErr := waitClose(t, p.dial(t, "foreign", "c")); closeErr.Code != websocket.ClosePolicyViolation {
		t.Errorf("the foreign end: %v", closeErr)
	}
	if err := <-p.results; !errors.Is(err, ErrOtherTicket) {
		t.Error(err)
	}
	answerer := p.dial(t, "answerer", "c")
	if err := answerer.WriteMessage(websocket.BinaryMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := receiveBytes(asker, 5); err != nil || string(got) != "hello" {
		t.Errorf("the asker got %q, %v", got, err)
	}
}

func TestRelayOfUnknownKindClosed(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	p.Broker = NewBroker()
	p.dial(t, "asker", "c")
	if err := <-p.results; err == nil {
		t.Error("the end waits")
	}
}
