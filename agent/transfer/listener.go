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

// Bounds of a door.
const (
	mostVisits = 32               // connections that it takes in all, strangers' too
	visitTime  = 10 * time.Second // for the handshake and the ticket together
	// FirstWord is how long a door stands open for its peer.
	FirstWord = time.Minute
)

// ErrNobody is in the error of a door by which the peer did not come.
var ErrNobody = errors.New("the other host did not come")

// Listener is a port that is open for one transfer, and lets its peer in once, with its ticket.
type Listener struct {
	own    Self
	peer   Peer
	ticket string // its hash
	ln     net.Listener
	closed sync.Once
}

// Open opens a door for the peer that has the ticket of that hash, on all of the host's addresses.
func Open(own Self, peer Peer, ticketHash string, ports Ports) (*Listener, error) {
	ln, err := ports.listen()
	if err != nil {
		return nil, fmt.Errorf("open a port for the transfer: %w", err)
	}
	return &Listener{own: own, peer: peer, ticket: ticketHash, ln: ln}, nil
}

// Ports are the first and the last on which a door may be; zero: on any.
type Ports struct{ First, Last int }

// None is where no door may be.
var None = Ports{-1, -1}

func (p Ports) listen() (ln net.Listener, err error) {
	for port := p.First; port <= p.Last; port++ {
		if ln, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil { //nolint:noctx // it takes no time
			return ln, nil
		}
	}
	return nil, err
}

// Port is where it is.
func (d *Listener) Port() int { return d.ln.Addr().(*net.TCPAddr).Port }

// Close closes the door; whoever was let in stays.
func (d *Listener) Close() { d.closed.Do(func() { d.ln.Close() }) }

// Wait lets the peer in, and closes the door behind it: also where it does not come in time, and where too many others came.
func (d *Listener) Wait(ctx context.Context) (*Incoming, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, FirstWord, ErrNobody)
	defer context.AfterFunc(ctx, d.Close)()
	came := make(chan *Incoming)
	ended := make(chan error, 1)
	over := make(chan struct{})
	defer func() { cancel(); d.Close(); <-over }()
	go func() {
		defer close(over)
		var visits sync.WaitGroup
		defer visits.Wait()
		for range mostVisits {
			conn, err := d.ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			visits.Go(func() {
				in, err := Admit(ctx, conn, d.own, d.peer, d.ticket)
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
		ended <- fmt.Errorf("%w: %d others did", ErrNobody, mostVisits)
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

// Admit is the receiving end of a connection, whichever way it came: the peer alone, with the ticket of that hash.
func Admit(ctx context.Context, conn net.Conn, own Self, peer Peer, ticketHash string) (*Incoming, error) {
	within, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	defer context.AfterFunc(within, func() { conn.Close() })()
	secure := tls.Server(&wide{Conn: conn}, settings(own, peer))
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
		return nil, fmt.Errorf("%w: it has another ticket", ErrStranger)
	}
	if _, err := secure.Write([]byte{admitted}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Incoming{conn: broad(secure)}, nil
}

// Dial goes to the first of the addresses at which the peer lets it in. Each gets a short time; all are tried at once.
func Dial(ctx context.Context, addresses []string, own Self, peer Peer, ticket Ticket) (*Outgoing, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type met struct {
		conn *tls.Conn
		err  error
	}
	each := make(chan met)
	for _, at := range addresses {
		go func() {
			conn, err := greet(ctx, at, own, peer)
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
			return enter(m.conn, ticket)
		}
		errs = append(errs, m.err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("the other host has no address to go to"))
	}
	return nil, errors.Join(errs...)
}

// dialTime is how long an address may take to answer.
const dialTime = 3 * time.Second

func greet(ctx context.Context, at string, own Self, peer Peer) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(&wide{Conn: conn}, settings(own, peer))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return secure, nil
}

// Enter is the sending end of a connection that was made otherwise.
func Enter(ctx context.Context, conn net.Conn, own Self, peer Peer, ticket Ticket) (*Outgoing, error) {
	ctx, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	secure := tls.Client(&wide{Conn: conn}, settings(own, peer))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return enter(secure, ticket)
}

func enter(conn *tls.Conn, ticket Ticket) (*Outgoing, error) {
	_ = conn.SetDeadline(time.Now().Add(visitTime))
	var word [1]byte
	_, err := conn.Write(ticket[:])
	if err == nil {
		_, err = io.ReadFull(conn, word[:])
	}
	if err == nil && word[0] != admitted {
		err = errors.New("it answers with something else")
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the other host does not take the ticket: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return &Outgoing{conn: broad(conn)}, nil
}

// Addresses are where other hosts may find a port of this one: neither this machine's own loopback nor what holds on one link alone.
func Addresses(port int) ([]string, error) {
	all, err := net.InterfaceAddrs()
	var out []string
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		if ok && ip.IP.IsGlobalUnicast() && len(out) < MostAddresses {
			out = append(out, net.JoinHostPort(ip.IP.String(), strconv.Itoa(port)))
		}
	}
	return out, err
}

// MostAddresses is how many of a host's addresses are tried.
const MostAddresses = 16
