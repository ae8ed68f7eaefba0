package wire

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// How an agent's connections are used. One is enough nearly always: a call that comes while a claim is parked is written behind it, and
// the portal answers both. Another one is dialled only where that one is held up.
const (
	heldUp    = 250 * time.Millisecond // longest wait for a connection that another call uses
	mostLinks = 4
	linger    = 5 * time.Second  // how long a connection beside another is kept without use
	idleMost  = 90 * time.Second // and the only one
	piece     = 1 << 10          // of what is sent: a portal keeps a buffer as large as the largest record that came
	dialLimit = 10 * time.Second
)

var (
	errClosed = errors.New("the connection to the portal is closed")
	errTurn   = errors.New("a call took the claim's turn")
)

// line is all connections under one set of credentials.
type line struct {
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	links   []*link
	dialled int           // on their way
	calls   int           // that look for a connection: claims let them go first
	changed chan struct{} // closed and replaced when a connection may have become free
	older   bool          // the portal did not say that a claim is parked: the next one is not waited for
	retired bool
}

func newLine(portal *url.URL, conf *tls.Config) *line {
	d := &tls.Dialer{NetDialer: newDialer(), Config: conf}
	address := net.JoinHostPort(portal.Hostname(), cmp.Or(portal.Port(), "443"))
	return &line{changed: make(chan struct{}), dial: func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		return d.DialContext(ctx, "tcp", address)
	}}
}

// send writes the request on some connection and waits for its answer, whose body is read. A claim gets errTurn where a call came.
func (l *line) send(ctx context.Context, req *http.Request, claim bool) (answer, error) {
	t := &turn{req: req, claim: claim, done: make(chan struct{}), sent: make(chan struct{})}
	c, err := l.take(ctx, t)
	if err != nil {
		return answer{}, err
	}
	c.write(ctx, t)
	select {
	case <-t.done:
	case <-ctx.Done():
		c.leave(t, ctx.Err())
		<-t.done
	}
	if t.err != nil && ctx.Err() != nil {
		return answer{}, ctx.Err()
	}
	return t.answer, t.err
}

// take finds a place for the turn: on a connection that is free, behind a parked claim, or on a new one.
func (l *line) take(ctx context.Context, t *turn) (*link, error) {
	if !t.claim {
		l.look(1)
		defer l.look(-1)
	}
	late := time.NewTimer(heldUp)
	defer late.Stop()
	for patient := true; ; {
		l.mu.Lock()
		c, dial := l.place(t, patient)
		changed := l.changed
		l.mu.Unlock()
		switch {
		case c != nil:
			return c, nil
		case dial:
			return l.open(ctx, t)
		}
		select {
		case <-changed:
		case <-late.C:
			patient = false
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *line) look(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls += n
	l.change()
}

// place gives the turn a connection, or says that one is to be dialled. The caller has the lock.
func (l *line) place(t *turn, patient bool) (c *link, dial bool) {
	soon := l.dialled > 0 // one will be free
	var behind *link
	for _, c := range l.links {
		switch state := c.state(); {
		case state == idle && (!t.claim || l.calls == 0 || !patient):
			c.turns = append(c.turns, t)
			return c, false
		case state == parked && !t.claim:
			behind = c
		case state == idle || state == busy:
			soon = true
		case state == held:
			l.older = true
		}
	}
	if behind != nil {
		behind.turns = append(behind.turns, t)
		return behind, false
	}
	if dial = (!soon || !patient) && len(l.links)+l.dialled < mostLinks; dial {
		l.dialled++
	}
	return nil, dial
}

// open dials a connection whose first turn is t.
func (l *line) open(ctx context.Context, t *turn) (*link, error) {
	conn, err := l.dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change()
	l.dialled--
	if err != nil {
		return nil, err
	}
	c := &link{line: l, conn: conn, turns: []*turn{t}, in: bufio.NewReader(conn)}
	c.out = bufio.NewWriterSize(pieces{conn}, piece)
	l.links = append(l.links, c)
	go c.read()
	return c, nil
}

// spare reports whether calls can do without c. The caller has the lock.
func (l *line) spare(c *link) bool {
	return slices.ContainsFunc(l.links, func(o *link) bool { return o != c && (o.state() == idle || o.state() == parked) })
}

// change wakes all who look for a connection. The caller has the lock.
func (l *line) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// retire closes what is not in use, and the rest once it is no longer.
func (l *line) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	for _, c := range slices.Clone(l.links) {
		if len(c.turns) == 0 {
			c.end(errClosed)
		}
	}
}

// pieces writes in small records.
type pieces struct{ conn net.Conn }

func (p pieces) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		var m int
		m, err = p.conn.Write(b[n:min(len(b), n+piece)])
		n += m
	}
	return n, err
}
