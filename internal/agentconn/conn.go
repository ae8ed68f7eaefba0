package agentconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	idleTimeout  = 2 * time.Minute  // read timeout while no claim is parked
	writeTimeout = 30 * time.Second // write timeout for one answer
)

// Conn is an agent's TCP connection, below the TLS layer.
type Conn struct {
	net.Conn
	listener *Listener
	tls      *tls.Conn

	ahead    [1]byte // the byte that was read while the connection was parked
	hasAhead bool

	mu     sync.Mutex
	closed bool
	value  io.Closer
}

// Read first returns the byte that was read from the connection while it was parked.
func (c *Conn) Read(p []byte) (int, error) {
	if c.hasAhead && len(p) > 0 {
		p[0], c.hasAhead = c.ahead[0], false
		return 1, nil
	}
	return c.Conn.Read(p)
}

// Close closes the connection and the value that SetValue stored.
func (c *Conn) Close() error {
	c.mu.Lock()
	kept := c.value
	c.closed, c.value = true, nil
	c.mu.Unlock()
	if kept != nil {
		kept.Close()
	}
	return c.Conn.Close()
}

// Value returns the value that SetValue stored; nil: there is none.
func (c *Conn) Value() io.Closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

// SetValue stores a value that later requests on the same connection can use. It closes the previous value now. The new
// value is closed together with the connection.
func (c *Conn) SetValue(k io.Closer) {
	c.mu.Lock()
	old := c.value
	c.value = k
	if c.closed {
		old = k
	}
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// ParkedConn is a connection whose request has no answer yet. While parked, it has no buffers, and only two goroutines
// with small stacks.
type ParkedConn struct {
	conn          *Conn
	ahead         []byte        // start of the next request, if net/http has read it already
	readable      chan struct{} // closed when the agent has sent data or closed the connection
	answered      chan struct{}
	closedByAgent bool // the agent closed the connection; set before readable is closed
}

// Park takes the connection of a request from net/http, after the request's body was read. The caller sends the answer
// with Answer, possibly after the request's handler has returned. If confirm is true, Park sends the agent status 102
// now.
func (c *Conn) Park(w http.Hijacker, confirm bool) (*ParkedConn, error) {
	_, buffered, err := w.Hijack()
	if err != nil {
		return nil, err
	}
	p := &ParkedConn{conn: c, readable: make(chan struct{}), answered: make(chan struct{})}
	if n := buffered.Reader.Buffered(); n > 0 {
		p.ahead, _ = buffered.Reader.Peek(n)
	}
	err = p.drainTLSBuffer()
	if confirm && err == nil {
		err = p.write([]byte("HTTP/1.1 102 Processing\r\n\r\n"))
	}
	if err != nil {
		p.closeConn()
		return nil, err
	}
	go p.wait()
	return p, nil
}

func (p *ParkedConn) closeConn() { _ = p.conn.tls.Close() }

func (p *ParkedConn) write(text []byte) error {
	var c net.Conn = p.conn.tls
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.Write(text); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

// drainTLSBuffer reads the data that the TLS layer has already buffered, because wait notices only new data below TLS.
func (p *ParkedConn) drainTLSBuffer() error {
	c := p.conn.tls
	setReadDeadline(c, time.Unix(1, 0))
	defer setReadDeadline(c, time.Time{})
	for more := make([]byte, 1); ; {
		n, err := c.Read(more)
		p.ahead = append(p.ahead, more[:n]...)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case len(p.ahead) > 0:
			return nil
		}
	}
}

// setReadDeadline sets the read deadline. It ignores the error of a closed connection, because the next read returns
// it.
func setReadDeadline(c net.Conn, t time.Time) { _ = c.SetReadDeadline(t) }

// wait waits for more data from the agent. After the answer, it returns the connection to the listener.
func (p *ParkedConn) wait() {
	if c := p.conn; len(p.ahead) == 0 {
		n, _ := c.Conn.Read(c.ahead[:])
		c.hasAhead, p.closedByAgent = n == 1, n == 0
	}
	close(p.readable)
	<-p.answered
	if p.closedByAgent {
		p.closeConn()
		return
	}
	setReadDeadline(p.conn, time.Time{})
	p.conn.listener.queueAccepted(acceptResult{conn: &resumedConn{p.conn.tls, p.ahead}})
}

// AnswerDue returns a channel that is closed once the agent has sent its next request or has closed the connection. The
// caller must then call Answer.
func (p *ParkedConn) AnswerDue() <-chan struct{} { return p.readable }

// Context returns a context that ends when the listener is closed, after which no answer can be sent.
func (p *ParkedConn) Context() context.Context { return p.conn.listener.ctx }

// Answer sends the answer. It must be called once.
func (p *ParkedConn) Answer(a *http.Response) {
	defer close(p.answered)
	a.ProtoMajor, a.ProtoMinor = 1, 1
	a.Close = p.conn.listener.ctx.Err() != nil
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	setReadDeadline(p.conn, time.Now().Add(idleTimeout))
	var text bytes.Buffer // one write makes one TLS record
	err := a.Write(&text)
	if err == nil {
		err = p.write(text.Bytes())
	}
	if err != nil || a.Close {
		p.closeConn()
	}
}

// resumedConn is a connection after it was parked. ahead is the start of the next request, which was read while the
// connection was parked.
type resumedConn struct {
	*tls.Conn
	ahead []byte
}

func (r *resumedConn) Read(p []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
