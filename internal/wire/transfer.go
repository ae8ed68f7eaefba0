package wire

import (
	"context"
	"net/url"

	"quantix/internal/fleet"
)

// MaxListens is how many addresses a receiver tells.
const MaxListens = 16

// Meet is the word of a host that has one of a transfer's jobs. Without a ticket it only asks.
type Meet struct {
	Job   fleet.JobID `json:"job"`
	Epoch int64       `json:"epoch"`
	// Ticket is the SHA-256, in hexadecimal, of the ticket that the sender has now, or that the receiver listens for.
	Ticket  string   `json:"ticket,omitempty"`
	Listens []string `json:"listens,omitempty"` // the receiver's, each "address:port"
	Relay   bool     `json:"relay,omitempty"`   // the sender's: at none of them is the receiver reached
}

// MeetAnswer is what the host hears of the other one.
type MeetAnswer struct {
	Peer      fleet.HostID `json:"peer"`
	PeerName  string       `json:"peerName"`
	KeyHash   string       `json:"keyHash"`             // of the other's key, SHA-256 in hexadecimal: of no other host may be thought that it is this one
	Ticket    string       `json:"ticket,omitempty"`    // the sender's newest
	Online    string       `json:"heard,omitempty"`     // the ticket that the receiver listens for,
	Listens   []string     `json:"listens,omitempty"`   // and where
	Paired    string       `json:"paired,omitempty"`    // the ticket for which both can meet
	Pair      fleet.PairID `json:"pair,omitempty"`      // by this pair
	PortalURL string       `json:"portalUrl,omitempty"` // at this portal
	Begun     bool         `json:"begun,omitempty"`     // the other one has its job in work, or has done it
	Received  bool         `json:"received,omitempty"`  // the receiver has told the portal that the file is there and whole
	Over      string       `json:"over,omitempty"`      // the other's job has ended otherwise: why
}

// Meet says a host's word about a transfer, and hears the other's.
func (c *Client) Meet(ctx context.Context, id fleet.TransferID, in Meet) (MeetAnswer, error) {
	var out MeetAnswer
	err := c.call(ctx, PathTransfers+url.PathEscape(string(id))+"/meet", in, &out)
	return out, err
}
