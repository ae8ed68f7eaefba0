// Package console pairs the two halves of a VM's console, the browser's websocket and the agent's, and splices them.
// It holds no VM, no person and no ticket: package control has judged both halves before they come here.
package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// How long a half waits for the other one. The agent may come first: its job is queued before the browser dials.
const (
	BrowserWait = 15 * time.Second
	AgentWait   = 30 * time.Second
)

// Why a console never came to be.
var (
	ErrNoHost    = errors.New("the host did not answer in time")
	ErrNoBrowser = errors.New("the browser did not come in time")
	ErrTaken     = errors.New("this half of the console is taken")
)

// Reason is a cause for which a console's context may be cancelled: a sentence that both halves are told. For any other
// cause they hear that the portal is stopping.
type Reason string

func (r Reason) Error() string { return string(r) }

type side int

const (
	browser side = iota
	agent
)

// late is what the half that waited in vain is told.
var late = [2]struct {
	wait time.Duration
	err  error
	text string
}{
	browser: {BrowserWait, ErrNoHost, "The host did not answer in time."},
	agent:   {AgentWait, ErrNoBrowser, "The browser did not come in time."},
}

// Broker is where halves meet; one a portal, in memory.
type Broker struct {
	mu      sync.Mutex
	waiting map[fleet.ConsoleID]*seat
	open    int
}

// half is one end of a console; said is called for each message that comes from it.
type half struct {
	ws   *websocket.Conn
	said func()
}

// seat is a half that waits. ready gets the session once, and only from whoever took the seat out of the map.
type seat struct {
	half
	side  side
	ready chan *session
}

// New makes a broker.
func New() *Broker { return &Broker{waiting: map[fleet.ConsoleID]*seat{}} }

// Browser waits up to BrowserWait for the agent's half, then splices until either half ends. It closes ws in any case,
// with a code and a sentence: 1013 where the host did not answer. said is called for each message of the browser.
func (b *Broker) Browser(ctx context.Context, id fleet.ConsoleID, ws *websocket.Conn, said func()) error {
	return b.serve(ctx, id, browser, half{ws, said})
}

// Agent is Browser for the agent's half; it waits up to AgentWait.
func (b *Broker) Agent(ctx context.Context, id fleet.ConsoleID, ws *websocket.Conn) error {
	return b.serve(ctx, id, agent, half{ws, func() {}})
}

// Counts says how many consoles are open and how many halves wait.
func (b *Broker) Counts() (open, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, len(b.waiting)
}

func (b *Broker) serve(ctx context.Context, id fleet.ConsoleID, s side, mine half) error {
	defer mine.ws.Close()
	session, err := b.meet(ctx, id, s, mine)
	if err != nil {
		code, text := websocket.CloseTryAgainLater, late[s].text
		if errors.Is(err, ErrTaken) {
			code, text = websocket.ClosePolicyViolation, "This console is open already."
		} else if ctx.Err() != nil {
			code, text = stopped(ctx)
		}
		sayClose(mine.ws, code, text)
		return err
	}
	stop := context.AfterFunc(ctx, func() { session.end(stopped(ctx)) })
	defer stop()
	session.run(s)
	if session.left() {
		b.mu.Lock()
		b.open--
		b.mu.Unlock()
	}
	return nil
}

func stopped(ctx context.Context) (int, string) {
	if why, ok := errors.AsType[Reason](context.Cause(ctx)); ok {
		return websocket.ClosePolicyViolation, string(why)
	}
	return websocket.CloseGoingAway, "The portal is stopping."
}

// meet gives both halves the same session. The second half to come starts it; the first waits.
func (b *Broker) meet(ctx context.Context, id fleet.ConsoleID, s side, mine half) (*session, error) {
	b.mu.Lock()
	if other := b.waiting[id]; other != nil {
		if other.side == s {
			b.mu.Unlock()
			return nil, ErrTaken
		}
		delete(b.waiting, id)
		b.open++
		b.mu.Unlock()
		both := newSession(s, mine, other.half)
		other.ready <- both
		return both, nil
	}
	seat := &seat{half: mine, side: s, ready: make(chan *session, 1)}
	b.waiting[id] = seat
	b.mu.Unlock()

	timer := time.NewTimer(late[s].wait)
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
	return nil, late[s].err
}
