// Package agentconn holds the portal's connections to agents. An agent usually has one connection, which waits for jobs
// most of the time. While it waits, this package takes the connection from net/http, which would need buffers, a
// request and two large stacks. net/http gets the connection back with the next request. See ADR 27.
package agentconn

import (
	"context"
	"crypto/tls"
	"net"
)

// Listener accepts agents' connections. It also accepts a parked connection again when the next request arrives on it.
// The server must use ConnContext as http.Server.ConnContext.
type Listener struct {
	inner  net.Listener
	conf   *tls.Config
	ready  chan acceptResult
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

type acceptResult struct {
	conn net.Conn
	err  error
}

// Listen returns a listener that accepts TLS connections from inner.
func Listen(inner net.Listener, conf *tls.Config) *Listener {
	l := &Listener{inner: inner, conf: conf, ready: make(chan acceptResult)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.acceptNewConns()
	return l
}

func (l *Listener) acceptNewConns() {
	for l.ctx.Err() == nil {
		raw, err := l.inner.Accept()
		if err != nil {
			l.queueAccepted(acceptResult{err: err})
			continue
		}
		c := &Conn{Conn: raw, listener: l}
		c.tls = tls.Server(c, l.conf)
		l.queueAccepted(acceptResult{conn: c.tls})
	}
}

func (l *Listener) queueAccepted(a acceptResult) {
	select {
	case l.ready <- a:
	case <-l.ctx.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

// Accept returns a new connection, or a connection that was parked.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and all parked connections.
func (l *Listener) Close() error {
	l.cancel()
	return l.inner.Close()
}

// Addr is the listener's address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

type connKey struct{}

// ConnContext adds the Conn to the context of its requests, where ConnFromContext finds it.
func (l *Listener) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		if own, ok := wrapped.NetConn().(*Conn); ok {
			return context.WithValue(ctx, connKey{}, own)
		}
	}
	return ctx
}

// ConnFromContext returns the connection of a request, given the request's context; nil if the connection came through
// no Listener.
func ConnFromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
