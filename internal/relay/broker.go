// Package relay splices two connections that a browser and a host, or two hosts, have opened to the portal. Each side
// presents a ticket that names both parties. Package control stores the tickets and decides who gets them.
package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// Errors of a relay whose two sides were never connected to each other.
var (
	ErrNoPeer      = errors.New("the other side did not connect in time")
	ErrTaken       = errors.New("this side of the relay is taken")
	ErrOtherTicket = errors.New("the other side has another ticket")
)

// CloseReason is a sentence that is sent to both sides, as the cancellation cause of a relay's context. For any other cause,
// both sides get the message that the portal is stopping.
type CloseReason string

func (r CloseReason) Error() string { return string(r) }

// KindConfig configures the relays of one kind: timeouts, and messages for users. The arrays are indexed by Side.
type KindConfig struct {
	Kind         Kind
	Wait         [2]time.Duration // maximum wait for the other side
	NoPeer       [2]string        // message to a side whose other side never connected
	Disconnected [2]string        // message that a side disconnected without a close frame
	Unreachable  [2]string        // message that a side no longer answers pings
	Taken        string           // message to a second connection of a side that is already connected
	NotBinary    string           // message after a websocket message that is not binary
	Limit        func(bytes int)  // blocks until the rate limit allows these bytes; nil: no limit
}

// Broker connects the two sides of relays. Each portal has one broker, in memory. It is safe for concurrent use.
type Broker struct {
	configs map[Kind]*KindConfig
	mu      sync.Mutex
	waiting map[fleet.PairID]*waiter
	open    map[Kind]int
}

// Tap observes and changes what one side of a relay sends and gets. Each function may be nil.
type Tap struct {
	OnMessage func() // is called for each message from the side
	// Send returns what the other side gets of a chunk that the side has sent. The result is used before the next call.
	// An error ends the relay; a CloseReason is sent to both sides.
	Send func(chunk []byte) ([]byte, error)
	Got  func(bytes int) // is called after the side got a chunk
}

// peer is the connection of one side.
type peer struct {
	ws  *websocket.Conn
	tap *Tap
}

func (t *Tap) onMessage() {
	if t != nil && t.OnMessage != nil {
		t.OnMessage()
	}
}

func (t *Tap) send(chunk []byte) ([]byte, error) {
	if t != nil && t.Send != nil {
		return t.Send(chunk)
	}
	return chunk, nil
}

func (t *Tap) got(bytes int) {
	if t != nil && t.Got != nil {
		t.Got(bytes)
	}
}

// waiter is an end that waits for the other end. ready receives the session at most once, from the goroutine that
// removed the waiter from the map.
type waiter struct {
	end   End
	peer  peer
	ready chan *session
}

// NewBroker returns a broker for relays of the configured kinds.
func NewBroker(uses ...KindConfig) *Broker {
	b := &Broker{configs: map[Kind]*KindConfig{}, waiting: map[fleet.PairID]*waiter{}, open: map[Kind]int{}}
	for _, u := range uses {
		b.configs[u.Kind] = &u
	}
	return b
}

// Serve waits for the other end, then copies between the two ends until either closes. It always closes ws with a code
// and a sentence: 1013 if the other end never connected. tap, which may be nil, is this end's.
func (b *Broker) Serve(ctx context.Context, end End, ws *websocket.Conn, tap *Tap) error {
	defer ws.Close()
	use := b.configs[end.Kind()]
	if use == nil {
		return fmt.Errorf("no relays of the kind %q are configured", end.Kind())
	}
	session, err := b.awaitSession(ctx, use, end, peer{ws, tap})
	if err != nil {
		code, text := websocket.CloseTryAgainLater, use.NoPeer[end.side]
		switch {
		case errors.Is(err, ErrTaken):
			code, text = websocket.ClosePolicyViolation, use.Taken
		case errors.Is(err, ErrOtherTicket):
			code, text = websocket.ClosePolicyViolation, "This connection is no longer the requested one. Open it again."
		case ctx.Err() != nil:
			code, text = stopReason(ctx)
		}
		sendClose(ws, code, text)
		return err
	}
	stop := context.AfterFunc(ctx, func() { session.closeBothSides(stopReason(ctx)) })
	defer stop()
	session.copyFromSide(end.side)
	b.leaveSession(session)
	return nil
}

// Counts returns the number of open relays of a kind, and the number of ends of that kind that wait for the other end.
func (b *Broker) Counts(k Kind) (open, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waiter := range b.waiting {
		if waiter.end.ticket.Kind == k {
			waiting++
		}
	}
	return b.open[k], waiting
}

func stopReason(ctx context.Context) (int, string) {
	if why, ok := errors.AsType[CloseReason](context.Cause(ctx)); ok {
		return websocket.ClosePolicyViolation, string(why)
	}
	return websocket.CloseGoingAway, "The portal is stopping."
}

// awaitSession returns the same session to both ends of a relay. The first end waits; the second one creates the
// session.
func (b *Broker) awaitSession(ctx context.Context, use *KindConfig, end End, own peer) (*session, error) {
	id := end.ticket.ID
	b.mu.Lock()
	if other := b.waiting[id]; other != nil {
		if err := end.checkMatch(other.end); err != nil {
			b.mu.Unlock()
			return nil, err
		}
		delete(b.waiting, id)
		b.open[use.Kind]++
		b.mu.Unlock()
		both := newSession(use, end.side, own, other.peer)
		other.ready <- both
		return both, nil
	}
	waiter := &waiter{end: end, peer: own, ready: make(chan *session, 1)}
	b.waiting[id] = waiter
	b.mu.Unlock()

	timer := time.NewTimer(use.Wait[end.side])
	defer timer.Stop()
	select {
	case both := <-waiter.ready:
		return both, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	if b.waiting[id] != waiter { // the other end connected just before the timeout
		b.mu.Unlock()
		return <-waiter.ready, nil
	}
	delete(b.waiting, id)
	b.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrNoPeer
}
