package transfer

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Limits of a listener.
const (
	maxListenerConnections = 32               // all connections, including those of other hosts
	admissionTimeout       = 10 * time.Second // for the handshake and the ticket together
	// PeerTimeout is how long a listener waits for its peer to connect.
	PeerTimeout = time.Minute
)

// ErrPeerNotConnected is wrapped by the error of a listener whose peer did not connect.
var ErrPeerNotConnected = errors.New("the other host did not connect")

// Listener is a port that is open for one transfer. It admits its peer once, with the transfer's ticket.
type Listener struct {
	self   HostIdentity
	peer   Peer
	ticket string // hash of the ticket
	ln     net.Listener
	closed sync.Once
}

// Open opens a listener on all of the host's addresses. It admits only peer, with the ticket that has the hash
// ticketHash.
func Open(own HostIdentity, peer Peer, ticketHash string, ports PortRange) (*Listener, error) {
	ln, err := ports.listen()
	if err != nil {
		return nil, fmt.Errorf("open a port for the transfer: %w", err)
	}
	return &Listener{self: own, peer: peer, ticket: ticketHash, ln: ln}, nil
}

// PortRange are the first and the last port allowed for listeners; zero: any.
type PortRange struct{ First, Last int }

// NoPorts allows no port.
var NoPorts = PortRange{-1, -1}

func (p PortRange) listen() (ln net.Listener, err error) {
	for port := p.First; port <= p.Last; port++ {
		if ln, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil { //nolint:noctx // it takes no time
			return ln, nil
		}
	}
	return nil, err
}

// Port returns the listener's port.
func (d *Listener) Port() int { return d.ln.Addr().(*net.TCPAddr).Port }

// Close closes the listener; admitted connections stay open.
func (d *Listener) Close() { d.closed.Do(func() { d.ln.Close() }) }

// WaitPeer waits for the peer. Then it closes the listener, also after PeerTimeout or after too many connections of
// hosts other than the peer.
func (d *Listener) WaitPeer(ctx context.Context) (*ReceivingConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PeerTimeout, ErrPeerNotConnected)
	defer context.AfterFunc(ctx, d.Close)()
	came := make(chan *ReceivingConn)
	ended := make(chan error, 1)
	over := make(chan struct{})
	defer func() { cancel(); d.Close(); <-over }()
	go func() {
		defer close(over)
		var visits sync.WaitGroup
		defer visits.Wait()
		for range maxListenerConnections {
			conn, err := d.ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			visits.Go(func() {
				in, err := Admit(ctx, conn, d.self, d.peer, d.ticket)
				if err != nil {
					return
				}
				select {
				case came <- in:
				case <-ctx.Done():
					in.Close()
				}
			})
		}
		d.Close()
		visits.Wait()
		ended <- fmt.Errorf("%w: all %d accepted connections failed", ErrPeerNotConnected, maxListenerConnections)
	}()
	select {
	case in := <-came:
		return in, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-ended:
		return nil, err
	}
}

// Admit accepts the sender on an existing connection: only peer, with the ticket that has the hash ticketHash. On an
// error it closes conn.
func Admit(ctx context.Context, conn net.Conn, own HostIdentity, peer Peer, ticketHash string) (*ReceivingConn, error) {
	within, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	defer context.AfterFunc(within, func() { conn.Close() })()
	secure := tls.Server(&bufferedConn{Conn: conn}, tlsConfig(own, peer))
	if err := secure.HandshakeContext(within); err != nil {
		_ = conn.Close()
		return nil, err
	}
	var shown Ticket
	if _, err := io.ReadFull(secure, shown[:]); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("read the ticket: %w", err)
	}
	sum := sha256.Sum256(shown[:])
	want, err := hex.DecodeString(ticketHash)
	if err != nil || subtle.ConstantTimeCompare(sum[:], want) != 1 {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: the ticket does not match", ErrWrongPeer)
	}
	if _, err := secure.Write([]byte{ticketAccepted}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &ReceivingConn{conn: enableBuffering(secure)}, nil
}

// Dial connects to the peer at the first address where the peer accepts the ticket. It tries all addresses in parallel,
// each for a short time.
func Dial(ctx context.Context, addresses []string, own HostIdentity, peer Peer, ticket Ticket) (*SendingConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type met struct {
		conn *tls.Conn
		err  error
	}
	each := make(chan met)
	for _, at := range addresses {
		go func() {
			conn, err := dialPeer(ctx, at, own, peer)
			select {
			case each <- met{conn, err}:
			case <-ctx.Done():
				if conn != nil {
					_ = conn.Close()
				}
			}
		}()
	}
	var errs []error
	for range addresses {
		m := <-each
		if m.err == nil {
			return presentTicket(m.conn, ticket)
		}
		errs = append(errs, m.err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("the other host has no address"))
	}
	return nil, errors.Join(errs...)
}

// dialTimeout limits the attempt at one address.
const dialTimeout = 3 * time.Second

func dialPeer(ctx context.Context, at string, own HostIdentity, peer Peer) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(&bufferedConn{Conn: conn}, tlsConfig(own, peer))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return secure, nil
}

// Connect presents the ticket to the receiver on an existing connection.
func Connect(ctx context.Context, conn net.Conn, own HostIdentity, peer Peer, ticket Ticket) (*SendingConn, error) {
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	secure := tls.Client(&bufferedConn{Conn: conn}, tlsConfig(own, peer))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return presentTicket(secure, ticket)
}

func presentTicket(conn *tls.Conn, ticket Ticket) (*SendingConn, error) {
	_ = conn.SetDeadline(time.Now().Add(admissionTimeout))
	var word [1]byte
	_, err := conn.Write(ticket[:])
	if err == nil {
		_, err = io.ReadFull(conn, word[:])
	}
	if err == nil && word[0] != ticketAccepted {
		err = errors.New("the answer is invalid")
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the other host does not accept the ticket: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return &SendingConn{conn: enableBuffering(conn)}, nil
}

// HostAddresses returns this host's addresses with port, as other hosts reach it: without loopback and link-local
// addresses.
func HostAddresses(port int) ([]string, error) {
	all, err := net.InterfaceAddrs()
	var out []string
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		if ok && ip.IP.IsGlobalUnicast() && len(out) < MaxAddresses {
			out = append(out, net.JoinHostPort(ip.IP.String(), strconv.Itoa(port)))
		}
	}
	return out, err
}

// MaxAddresses limits the number of a host's addresses that are tried.
const MaxAddresses = 16
