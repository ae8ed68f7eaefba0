package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Limits of a transfer.
const (
	transferTries      = 5                      // connections per transfer
	rendezvousInterval = 300 * time.Millisecond // between later messages; see rendezvousPause
	rendezvousTimeout  = 10 * time.Minute       // longest wait for the other host to begin its job
	keepAliveInterval  = 5 * time.Second
)

// rendezvousPause returns the pause after the n-th message, counted from 0: 20 ms at first, because the other host usually
// answers at once, and later rendezvousInterval.
func rendezvousPause(n int) time.Duration {
	return min(rendezvousInterval, 20*time.Millisecond<<min(n, 4))
}

// rendezvous exchanges one transfer's messages with the other host through the portal.
type rendezvous struct {
	a         *Agent
	j         *job
	id        fleet.TransferID
	peerName  string
	idleSince time.Time // since when the other host has not begun its job
}

func (a *Agent) newRendezvous(j *job, id fleet.TransferID, peer string) *rendezvous {
	return &rendezvous{a: a, j: j, id: id, peerName: peer, idleSince: time.Now()}
}

// exchangeMessage sends a message to the other host and returns that host's newest message. It retries until the
// message reaches the portal. It fails if the other host has failed.
func (m *rendezvous) exchangeMessage(ctx context.Context, msg wire.TransferState) (wire.TransferPeerState, error) {
	out, err := m.exchangeAnyMessage(ctx, msg)
	if err == nil {
		err = m.checkPeer(out)
	}
	return out, err
}

// exchangeAnyMessage is exchangeMessage, also if the other host has failed.
func (m *rendezvous) exchangeAnyMessage(ctx context.Context, msg wire.TransferState) (wire.TransferPeerState, error) {
	wait := newBackoff(m.a.timing.retry, m.a.timing.retryMax)
	for {
		msg.Job, msg.Epoch = m.j.ID, m.j.epoch.Load()
		out, err := m.a.client.ReportTransferState(ctx, m.id, msg)
		switch status := wire.StatusOf(err); {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case status == 404:
			return out, errors.New("the portal does not know of this transfer, or is too old for it")
		case status/100 == 4 && status != 401 && status != 408 && status != 409 && status != 429:
			return out, err
		}
		if !sleepContext(ctx, wait.NextBackOff()) {
			return out, context.Cause(ctx)
		}
	}
}

// checkPeer returns an error if the other host has failed, or has not begun its part in time.
func (m *rendezvous) checkPeer(out wire.TransferPeerState) error {
	if out.PeerName != "" {
		m.peerName = out.PeerName
	}
	switch {
	case out.PeerError != "" && !out.Received:
		return fleet.Errorf(fleet.Conflict, "The transfer failed on %s: %s", m.peerName, out.PeerError)
	case out.Begun:
		m.idleSince = time.Now()
	case time.Since(m.idleSince) > rendezvousTimeout:
		return fleet.Errorf(fleet.Conflict, "%s has not started its part of the transfer within %d minutes. Check that the host is online, and try again.", m.peerName, int(rendezvousTimeout.Minutes()))
	}
	return nil
}

// pollUntil repeats the message until ready accepts the other host's answer.
func (m *rendezvous) pollUntil(ctx context.Context, msg wire.TransferState, note string, ready func(wire.TransferPeerState) bool) (wire.TransferPeerState, error) {
	for n := 0; ; n++ {
		out, err := m.exchangeMessage(ctx, msg)
		if err != nil || ready(out) {
			return out, err
		}
		m.j.notifier.notify(0, note+" "+m.peerName)
		if !sleepContext(ctx, rendezvousPause(n)) {
			return out, context.Cause(ctx)
		}
	}
}

func (m *rendezvous) peerOf(out wire.TransferPeerState) transfer.Peer {
	return transfer.Peer{Host: out.Peer, KeyHash: out.KeyHash}
}

// send sends a file to the other host and returns once the host has received all of it.
func (m *rendezvous) send(ctx context.Context, pieces transfer.Pieces, size int64, rate *transfer.RateLimit, report func(done, total, rate int64, way string)) error {
	for try := 1; ; try++ {
		ticket := transfer.NewTicket()
		remote, err := m.pollUntil(ctx, wire.TransferState{Ticket: ticket.Hash()}, "waiting for", func(o wire.TransferPeerState) bool { return o.Online == ticket.Hash() || o.Received })
		if err != nil || remote.Received {
			return err
		}
		out, way, err := m.connectReceiver(ctx, remote, ticket)
		if err == nil {
			report(0, size, 0, way)
			err = out.Send(ctx, pieces, size, rate, &transfer.Meter{Total: size, Report: func(done, total, rate int64) { report(done, total, rate, way) }})
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, transfer.ErrConnectionLost) || try >= transferTries {
			return err
		}
		m.a.log.Warn("A transfer's connection was lost; trying again.", "job", m.j.ID, "peer", m.peerName, "error", err)
		if !sleepContext(ctx, m.a.timing.retry) {
			return context.Cause(ctx)
		}
	}
}

// connect connects to the other host, for use in both directions. way is a note on the connection.
func (m *rendezvous) connect(ctx context.Context) (conn net.Conn, way string, err error) {
	ticket := transfer.NewTicket()
	remote, err := m.pollUntil(ctx, wire.TransferState{Ticket: ticket.Hash()}, "waiting for", func(o wire.TransferPeerState) bool { return o.Online == ticket.Hash() || o.Received })
	if err != nil {
		return nil, "", err
	}
	if remote.Received {
		return nil, "", fleet.Errorf(fleet.Conflict, "%s reports the end of the transfer, but never connected to this host.", m.peerName)
	}
	out, way, err := m.connectReceiver(ctx, remote, ticket)
	if err != nil {
		return nil, "", err
	}
	return out.Stream(), way, nil
}

// awaitReceiver returns once the receiving host's job has ended. done reports that the job succeeded.
func (m *rendezvous) awaitReceiver(ctx context.Context) (done bool, err error) {
	for n := 0; ; n++ {
		out, err := m.exchangeAnyMessage(ctx, wire.TransferState{})
		switch {
		case err != nil:
			return false, err
		case out.Received:
			return true, nil
		case out.PeerError != "":
			return false, nil
		}
		m.j.notifier.notify(99, "waiting for the result of "+m.peerName)
		if !sleepContext(ctx, rendezvousPause(n)) {
			return false, context.Cause(ctx)
		}
	}
}

// connectReceiver connects to the receiver directly, or else through the portal's relay.
func (m *rendezvous) connectReceiver(ctx context.Context, remote wire.TransferPeerState, ticket transfer.Ticket) (*transfer.SendingConn, string, error) {
	own, peer := m.a.identity.transferCredentials(), m.peerOf(remote)
	out, err := transfer.Dial(ctx, remote.Listens, own, peer, ticket)
	if err == nil {
		return out, "", nil
	}
	m.a.log.Info("The other host cannot be reached directly; using the portal's relay.", "job", m.j.ID, "peer", m.peerName, "error", err)
	at, err := m.pollUntil(ctx, wire.TransferState{Ticket: ticket.Hash(), Relay: true}, "waiting at the portal for", func(o wire.TransferPeerState) bool { return o.RelayTicket == ticket.Hash() })
	if err != nil {
		return nil, "", err
	}
	conn, err := m.dialRelay(ctx, at)
	if err == nil {
		out, err = transfer.Connect(ctx, conn, own, peer, ticket)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: through the portal's relay: %w", transfer.ErrConnectionLost, err)
	}
	return out, ", " + fleet.RelayedNote, nil
}

func (m *rendezvous) dialRelay(ctx context.Context, at wire.TransferPeerState) (net.Conn, error) {
	ws, err := m.a.client.DialRelay(ctx, at.PortalURL, at.RelayID)
	if err != nil {
		return nil, err
	}
	return relayConn{wire.NewStream(ws)}, nil
}

// relayConn adapts a relayed stream to net.Conn for TLS. It ignores deadlines, because the stream sets its own.
type relayConn struct{ *wire.Stream }

func (relayConn) LocalAddr() net.Addr              { return relayAddr{} }
func (relayConn) RemoteAddr() net.Addr             { return relayAddr{} }
func (relayConn) SetDeadline(time.Time) error      { return nil }
func (relayConn) SetReadDeadline(time.Time) error  { return nil }
func (relayConn) SetWriteDeadline(time.Time) error { return nil }

type relayAddr struct{}

func (relayAddr) Network() string { return "pair" }
func (relayAddr) String() string  { return "portal" }

// receive admits the sender and calls handle with the connection. After a lost connection it admits the sender again.
func (m *rendezvous) receive(ctx context.Context, handle func(context.Context, *transfer.ReceivingConn) error) (*transfer.ReceivingConn, error) {
	used := ""
	for try := 1; ; try++ {
		in, ticket, err := m.admitSender(ctx, used)
		if err != nil {
			return nil, err
		}
		used = ticket
		if err = handle(ctx, in); err == nil {
			return in, nil
		}
		in.Answer(err)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, transfer.ErrConnectionLost) || try >= transferTries {
			return nil, err
		}
	}
}

// admitSender waits for a sender with an unused ticket, at a listener of this host and at the portal.
func (m *rendezvous) admitSender(ctx context.Context, used string) (in *transfer.ReceivingConn, ticket string, err error) {
	for {
		remote, err := m.pollUntil(ctx, wire.TransferState{}, "waiting for", func(o wire.TransferPeerState) bool { return o.Ticket != "" && o.Ticket != used })
		if err != nil {
			return nil, "", err
		}
		in, err := m.admitSenderWithTicket(ctx, remote)
		if in != nil || err != nil {
			return in, remote.Ticket, err
		}
		used = remote.Ticket
	}
}

// admitSenderWithTicket waits for the sender with the ticket in remote; nil: the sender uses another ticket now.
func (m *rendezvous) admitSenderWithTicket(ctx context.Context, remote wire.TransferPeerState) (*transfer.ReceivingConn, error) {
	own, peer := m.a.identity.transferCredentials(), m.peerOf(remote)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	msg := wire.TransferState{Ticket: remote.Ticket}
	admitted := make(chan *transfer.ReceivingConn, 1)
	listener, err := transfer.Open(own, peer, remote.Ticket, m.a.ports)
	if err == nil {
		if msg.Listens, err = transfer.HostAddresses(listener.Port()); err != nil || len(msg.Listens) == 0 {
			listener.Close()
		}
		waited := make(chan struct{})
		defer func() {
			cancel()
			if <-waited; len(admitted) > 0 { // close a second connection that nobody uses
				(<-admitted).Close()
			}
		}()
		go func() {
			defer close(waited)
			if in, err := listener.WaitPeer(ctx); err == nil {
				admitted <- in
			}
		}()
	}
	if err != nil {
		m.a.log.Warn("No port can be opened for a transfer; using the portal's relay.", "job", m.j.ID, "error", err)
	}
	poll := time.NewTicker(rendezvousInterval)
	defer poll.Stop()
	for {
		out, err := m.exchangeMessage(ctx, msg)
		switch {
		case err != nil:
			return nil, err
		case out.Ticket != remote.Ticket:
			return takeAdmittedSender(admitted), nil
		}
		if out.RelayTicket == remote.Ticket {
			if in := takeAdmittedSender(admitted); in != nil {
				return in, nil
			}
			conn, err := m.dialRelay(ctx, out)
			if err == nil {
				in, wrong := transfer.Admit(ctx, conn, own, peer, remote.Ticket)
				if wrong == nil {
					return in, nil
				}
				err = wrong
			}
			if ctx.Err() == nil {
				m.a.log.Warn("The sender did not connect through the portal's relay.", "job", m.j.ID, "peer", m.peerName, "error", err)
				return nil, nil // the sender retries with another ticket
			}
		}
		select {
		case in := <-admitted:
			return in, nil
		case <-poll.C:
			m.j.notifier.notify(0, "waiting for "+m.peerName)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// takeAdmittedSender returns a sender that was admitted a moment ago; nil: none.
func takeAdmittedSender(admitted <-chan *transfer.ReceivingConn) *transfer.ReceivingConn {
	select {
	case in := <-admitted:
		return in
	default:
		return nil
	}
}
