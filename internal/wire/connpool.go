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

// Limits of an agent's connections. One connection is nearly always enough: while the portal holds a claim that waits
// for jobs, a call is sent behind the claim, and the portal answers both. A second connection is dialled only when the
// first one is blocked.
const (
	busyWait       = 250 * time.Millisecond // longest wait for a busy connection
	maxConns       = 4
	spareIdleLimit = 5 * time.Second  // idle limit of a connection while others exist
	soleIdleLimit  = 90 * time.Second // idle limit of the only connection
	// recordSize is the size of a TLS record in bytes. It is small because a portal keeps a buffer as large as the
	// largest record received.
	recordSize = 1 << 10
	dialLimit  = 10 * time.Second
)

var (
	errClosed    = errors.New("the connection to the portal is closed")
	errPreempted = errors.New("a call took the claim's turn")
)

// connPool holds all connections that use one set of credentials.
type connPool struct {
	dial func(context.Context) (net.Conn, error)

	mu          sync.Mutex
	conns       []*connection
	dialling    int           // connections being dialled
	waiting     int           // calls that wait for a connection; while there are any, claims wait
	changed     chan struct{} // closed and replaced when a connection may have become free
	olderPortal bool          // the portal did not confirm a parked claim, so later claims do not wait for a confirmation
	retired     bool
}

func newConnPool(portal *url.URL, conf *tls.Config) *connPool {
	d := &tls.Dialer{NetDialer: newDialer(), Config: conf}
	address := net.JoinHostPort(portal.Hostname(), cmp.Or(portal.Port(), "443"))
	return &connPool{changed: make(chan struct{}), dial: func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		return d.DialContext(ctx, "tcp", address)
	}}
}

// send writes the request on a connection and returns the complete answer. A claim returns errPreempted if a call has
// used the claim's connection.
func (p *connPool) send(ctx context.Context, req *http.Request, claim bool) (answer, error) {
	t := &exchange{req: req, claim: claim, done: make(chan struct{}), sent: make(chan struct{})}
	c, err := p.acquire(ctx, t)
	if err != nil {
		return answer{}, err
	}
	c.write(ctx, t)
	select {
	case <-t.done:
	case <-ctx.Done():
		c.abandon(t, ctx.Err())
		<-t.done
	}
	if t.err != nil && ctx.Err() != nil {
		return answer{}, ctx.Err()
	}
	return t.answer, t.err
}

// acquire queues the exchange on an idle connection, behind a claim that the portal holds, or on a new connection.
func (p *connPool) acquire(ctx context.Context, t *exchange) (*connection, error) {
	if !t.claim {
		p.addWaitingCalls(1)
		defer p.addWaitingCalls(-1)
	}
	busyTimer := time.NewTimer(busyWait)
	defer busyTimer.Stop()
	for mayWait := true; ; {
		p.mu.Lock()
		c, dial := p.pickConnection(t, mayWait)
		changed := p.changed
		p.mu.Unlock()
		switch {
		case c != nil:
			return c, nil
		case dial:
			return p.dialForExchange(ctx, t)
		}
		select {
		case <-changed:
		case <-busyTimer.C:
			mayWait = false
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *connPool) addWaitingCalls(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
	p.notify()
}

// pickConnection picks a connection for the exchange, or reports that a new one must be dialled. The caller holds the
// lock.
func (p *connPool) pickConnection(t *exchange, mayWait bool) (c *connection, dial bool) {
	freeSoon := p.dialling > 0 // a connection becomes idle soon
	var parkedConn *connection
	for _, c := range p.conns {
		switch state := c.state(); {
		case state == idle && (!t.claim || p.waiting == 0 || !mayWait):
			c.exchanges = append(c.exchanges, t)
			return c, false
		case state == parked && !t.claim:
			parkedConn = c
		case state == idle || state == busy:
			freeSoon = true
		case state == blocked:
			p.olderPortal = true
		}
	}
	if parkedConn != nil {
		parkedConn.exchanges = append(parkedConn.exchanges, t)
		return parkedConn, false
	}
	if dial = (!freeSoon || !mayWait) && len(p.conns)+p.dialling < maxConns; dial {
		p.dialling++
	}
	return nil, dial
}

// dialForExchange dials a connection whose first exchange is t.
func (p *connPool) dialForExchange(ctx context.Context, t *exchange) (*connection, error) {
	conn, err := p.dial(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.notify()
	p.dialling--
	if err != nil {
		return nil, err
	}
	c := &connection{pool: p, conn: conn, exchanges: []*exchange{t}, in: bufio.NewReader(conn)}
	c.out = bufio.NewWriterSize(smallRecordWriter{conn}, recordSize)
	p.conns = append(p.conns, c)
	go c.read()
	return c, nil
}

// isRedundant reports whether another connection can take calls instead of c. The caller holds the lock.
func (p *connPool) isRedundant(c *connection) bool {
	return slices.ContainsFunc(p.conns, func(o *connection) bool { return o != c && (o.state() == idle || o.state() == parked) })
}

// notify wakes all goroutines that wait for a connection. The caller holds the lock.
func (p *connPool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// closeAllWhenIdle closes idle connections now and the others when they become idle.
func (p *connPool) closeAllWhenIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	for _, c := range slices.Clone(p.conns) {
		if len(c.exchanges) == 0 {
			c.close(errClosed)
		}
	}
}

// smallRecordWriter splits writes to a TLS connection into records of at most recordSize bytes.
type smallRecordWriter struct{ conn net.Conn }

func (r smallRecordWriter) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		var m int
		m, err = r.conn.Write(b[n:min(len(b), n+recordSize)])
		n += m
	}
	return n, err
}
