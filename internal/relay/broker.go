// Package relay splices two outbound connections: a browser and a host, or two hosts. Each comes with a
// ticket that names the parties; who holds which ticket is stored and decided elsewhere (package control).
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

// Why a pair never came to be.
var (
	ErrAlone   = errors.New("the other side did not come in time")
	ErrTaken   = errors.New("this side of the pair is taken")
	ErrForeign = errors.New("the other side came with another ticket")
)

// Reason is a cause for which a pair's context may be cancelled: a sentence that both sides are told. For any other cause
// they hear that the portal is stopping.
type Reason string

func (r Reason) Error() string { return string(r) }

// Use is what a kind of pairs is used for: how long its sides wait, and what people are told. The arrays are by Side.
type Use struct {
	Kind        Kind
	Wait        [2]time.Duration // longest wait for the other side
	Late        [2]string        // told to a side that waited in vain
	Left        [2]string        // told of a side that went without a word
	Unreachable [2]string        // told of a side that is no longer heard
	Taken       string           // told to who comes for a side that is taken
	Stray       string           // told when a message is not binary
	Pace        func(bytes int)  // waits until so many bytes more may be carried; nil: they always may
}

// Broker is where sides meet; one a portal, in memory.
type Broker struct {
	uses    map[Kind]*Use
	mu      sync.Mutex
	waiting map[fleet.PairID]*seat
	open    map[Kind]int
}

// line is the connection of one side; said is called for each message that comes from it.
type line struct {
	ws   *websocket.Conn
	said func()
}

// seat is an end that waits. ready gets the session once, and only from whoever took the seat out of the map.
type seat struct {
	end   End
	line  line
	ready chan *session
}

// New makes a broker of pairs of these uses.
func New(uses ...Use) *Broker {
	b := &Broker{uses: map[Kind]*Use{}, waiting: map[fleet.PairID]*seat{}, open: map[Kind]int{}}
	for _, u := range uses {
		b.uses[u.Kind] = &u
	}
	return b
}

// Serve waits for the other end, then splices until either ends. It closes ws in any case, with a code and a sentence: 1013
// where the other one did not come. said, which may be nil, is called for each message that this end sends.
func (b *Broker) Serve(ctx context.Context, end End, ws *websocket.Conn, said func()) error {
	defer ws.Close()
	use := b.uses[end.Kind()]
	if use == nil {
		return fmt.Errorf("nothing uses pairs of the kind %q", end.Kind())
	}
	if said == nil {
		said = func() {}
	}
	session, err := b.meet(ctx, use, end, line{ws, said})
	if err != nil {
		code, text := websocket.CloseTryAgainLater, use.Late[end.side]
		switch {
		case errors.Is(err, ErrTaken):
			code, text = websocket.ClosePolicyViolation, use.Taken
		case errors.Is(err, ErrForeign):
			code, text = websocket.ClosePolicyViolation, "This connection is no longer the one that was asked for. Open it again."
		case ctx.Err() != nil:
			code, text = stopped(ctx)
		}
		sayClose(ws, code, text)
		return err
	}
	stop := context.AfterFunc(ctx, func() { session.end(stopped(ctx)) })
	defer stop()
	session.run(end.side)
	b.leave(session)
	return nil
}

// Counts says how many pairs of a kind are open and how many ends wait.
func (b *Broker) Counts(k Kind) (open, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seat := range b.waiting {
		if seat.end.ticket.Kind == k {
			waiting++
		}
	}
	return b.open[k], waiting
}

func stopped(ctx context.Context) (int, string) {
	if why, ok := errors.AsType[Reason](context.Cause(ctx)); ok {
		return websocket.ClosePolicyViolation, string(why)
	}
	return websocket.CloseGoingAway, "The portal is stopping."
}

// meet gives both ends the same session. The second end to come starts it; the first waits.
func (b *Broker) meet(ctx context.Context, use *Use, end End, mine line) (*session, error) {
	id := end.ticket.ID
	b.mu.Lock()
	if other := b.waiting[id]; other != nil {
		if err := end.fits(other.end); err != nil {
			b.mu.Unlock()
			return nil, err
		}
		delete(b.waiting, id)
		b.open[use.Kind]++
		b.mu.Unlock()
		both := newSession(use, end.side, mine, other.line)
		other.ready <- both
		return both, nil
	}
	seat := &seat{end: end, line: mine, ready: make(chan *session, 1)}
	b.waiting[id] = seat
	b.mu.Unlock()

	timer := time.NewTimer(use.Wait[end.side])
	defer timer.Stop()
	select {
	case both := <-seat.ready:
		return both, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	if b.waiting[id] != seat { // taken in the last moment
		b.mu.Unlock()
		return <-seat.ready, nil
	}
	delete(b.waiting, id)
	b.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrAlone
}
