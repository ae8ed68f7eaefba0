// Package agentconn holds the connections of agents at the portal. An agent has one connection and uses it in turn; nearly always it waits on it
// for work. Such a connection is taken from net/http, which would keep buffers, a request and two large stacks for it, and is handed
// back with the next request. See ADR 28.
package agentconn

import (
	"context"
	"crypto/tls"
	"net"
)

// Listener accepts agents' connections, and again those that were parked and have the next request. It is a server's only with
// ConnContext as its own.
type Listener struct {
	inner net.Listener
	conf  *tls.Config
	ready chan accepted
	life  context.Context // ends with Close
	end   context.CancelFunc
}

type accepted struct {
	conn net.Conn
	err  error
}

// Listen serves TLS over inner.
func Listen(inner net.Listener, conf *tls.Config) *Listener {
	l := &Listener{inner: inner, conf: conf, ready: make(chan accepted)}
	l.life, l.end = context.WithCancel(context.Background())
	go l.acceptNew()
	return l
}

func (l *Listener) acceptNew() {
	for l.life.Err() == nil {
		raw, err := l.inner.Accept()
		if err != nil {
			l.hand(accepted{err: err})
			continue
		}
		c := &Conn{Conn: raw, line: l}
		c.tls = tls.Server(c, l.conf)
		l.hand(accepted{conn: c.tls})
	}
}

func (l *Listener) hand(a accepted) {
	select {
	case l.ready <- a:
	case <-l.life.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

// Accept is for the server.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.life.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the listener and all that is parked.
func (l *Listener) Close() error {
	l.end()
	return l.inner.Close()
}

// Addr is where it listens.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

type key struct{}

// ConnContext lets requests find their Conn.
func (l *Listener) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		if own, ok := over.NetConn().(*Conn); ok {
			return context.WithValue(ctx, key{}, own)
		}
	}
	return ctx
}

// Of is the connection that a request came by; nil: by no Listener's.
func Of(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}
