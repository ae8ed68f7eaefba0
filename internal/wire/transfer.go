package wire

import (
	"context"
	"net/url"

	"quantix/internal/fleet"
)

// MaxListens is the maximum number of addresses that a receiving host may report.
const MaxListens = 16

// TransferState is the message of a host that runs one of a transfer's two jobs, the sending or the receiving one.
// Without a ticket, the host only polls for the answer.
type TransferState struct {
	Job   fleet.JobID `json:"job"`
	Epoch int64       `json:"epoch"`
	// Ticket is the SHA-256 of a ticket, in hexadecimal. A sender sends its current ticket, a receiver the ticket that
	// it accepts.
	Ticket  string   `json:"ticket,omitempty"`
	Listens []string `json:"listens,omitempty"` // only from the receiver: its addresses, each "address:port"
	Relay   bool     `json:"relay,omitempty"`   // only from the sender: it cannot reach any of the receiver's addresses
}

// TransferPeerState contains what the portal knows about the transfer's other host.
type TransferPeerState struct {
	Peer     fleet.HostID `json:"peer"`
	PeerName string       `json:"peerName"`
	// KeyHash is the SHA-256 of the other host's public key, in hexadecimal. The host accepts no other key.
	KeyHash     string       `json:"keyHash"`
	Ticket      string       `json:"ticket,omitempty"`    // the sender's newest ticket
	Online      string       `json:"heard,omitempty"`     // the ticket that the receiver accepts
	Listens     []string     `json:"listens,omitempty"`   // the receiver's addresses
	RelayTicket string       `json:"paired,omitempty"`    // the ticket that both hosts can use for the relay
	RelayID     fleet.PairID `json:"pair,omitempty"`      // the relay
	PortalURL   string       `json:"portalUrl,omitempty"` // address of the portal with the relay
	Begun       bool         `json:"begun,omitempty"`     // the other host has started or finished its job
	Received    bool         `json:"received,omitempty"`  // the receiver has reported the complete file
	PeerError   string       `json:"over,omitempty"`      // why the other host's job has ended without success
}

// ReportTransferState reports this host's state of a transfer and returns the other host's state.
func (c *Client) ReportTransferState(ctx context.Context, id fleet.TransferID, in TransferState) (TransferPeerState, error) {
	var out TransferPeerState
	err := c.call(ctx, PathTransfers+url.PathEscape(string(id))+"/meet", in, &out)
	return out, err
}
