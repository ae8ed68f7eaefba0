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
	idle       = 2 * time.Minute  // longest silence of an agent that waits for nothing
	writeLimit = 30 * time.Second // for one answer
)

// Conn is an agent's connection below its TLS.
type Conn struct {
	net.Conn
	line *Listener
	tls  *tls.Conn

	ahead [1]byte // read while parked
	has   bool

	mu     sync.Mutex
	closed bool
	kept   io.Closer
}

// Read gives what was read while the connection was parked first.
func (c *Conn) Read(p []byte) (int, error) {
	if c.has && len(p) > 0 {
		p[0], c.has = c.ahead[0], false
		return 1, nil
	}
	return c.Conn.Read(p)
}

// Close ends what was kept, too.
func (c *Conn) Close() error {
	c.mu.Lock()
	kept := c.kept
	c.closed, c.kept = true, nil
	c.mu.Unlock()
	if kept != nil {
		kept.Close()
	}
	return c.Conn.Close()
}

// Kept is what Keep was given last.
func (c *Conn) Kept() io.Closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// Keep has something that one request made at hand for the next ones. It is closed with the connection, and what was kept before at once.
func (c *Conn) Keep(k io.Closer) {
	c.mu.Lock()
	old := c.kept
	c.kept = k
	if c.closed {
		old = k
	}
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// Parked is a connection between a request that was read and its answer. While it waits it holds no buffers and two small stacks.
type Parked struct {
	conn     *Conn
	ahead    []byte        // of the next request, as far as net/http has read it
	heard    chan struct{} // closed when the agent has said more, or is gone
	answered chan struct{}
	gone     bool // the agent; set before heard
}

// Park takes the connection of a request whose body is read. The caller's answer goes to Answer, and may come after its handler has
// returned. told: the agent wants to hear that it is parked.
func (c *Conn) Park(w http.Hijacker, told bool) (*Parked, error) {
	_, buffered, err := w.Hijack()
	if err != nil {
		return nil, err
	}
	p := &Parked{conn: c, heard: make(chan struct{}), answered: make(chan struct{})}
	if n := buffered.Reader.Buffered(); n > 0 {
		p.ahead, _ = buffered.Reader.Peek(n)
	}
	err = p.drain()
	if told && err == nil {
		err = p.write([]byte("HTTP/1.1 102 Processing\r\n\r\n"))
	}
	if err != nil {
		p.end()
		return nil, err
	}
	go p.keep()
	return p, nil
}

func (p *Parked) end() { _ = p.conn.tls.Close() }

func (p *Parked) write(text []byte) error {
	var c net.Conn = p.conn.tls
	c.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := c.Write(text); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

// drain takes what TLS has read already: only what is still below it can be waited for.
func (p *Parked) drain() error {
	c := p.conn.tls
	until(c, time.Unix(1, 0))
	defer until(c, time.Time{})
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

// until bounds reading. A connection that is closed says so when it is read.
func until(c net.Conn, t time.Time) { _ = c.SetReadDeadline(t) }

// keep waits for what the agent says next, and gives the connection back once all before it is answered.
func (p *Parked) keep() {
	if c := p.conn; len(p.ahead) == 0 {
		n, _ := c.Conn.Read(c.ahead[:])
		c.has, p.gone = n == 1, n == 0
	}
	close(p.heard)
	<-p.answered
	if p.gone {
		p.end()
		return
	}
	until(p.conn, time.Time{})
	p.conn.line.hand(accepted{conn: &again{p.conn.tls, p.ahead}})
}

// ReadAnything is closed when the agent has sent its next request, or has hung up: the answer is due.
func (p *Parked) ReadAnything() <-chan struct{} { return p.heard }

// Life ends when no answer is worth anything any more.
func (p *Parked) Life() context.Context { return p.conn.line.life }

// Answer sends the answer. It must be called once.
func (p *Parked) Answer(a *http.Response) {
	defer close(p.answered)
	a.ProtoMajor, a.ProtoMinor = 1, 1
	a.Close = p.conn.line.life.Err() != nil
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	until(p.conn, time.Now().Add(idle))
	var text bytes.Buffer // one write, one record
	err := a.Write(&text)
	if err == nil {
		err = p.write(text.Bytes())
	}
	if err != nil || a.Close {
		p.end()
	}
}

// again is a connection that was parked, with what was read of its next request.
type again struct {
	*tls.Conn
	ahead []byte
}

func (a *again) Read(p []byte) (int, error) {
	if len(a.ahead) > 0 {
		n := copy(p, a.ahead)
		a.ahead = a.ahead[n:]
		return n, nil
	}
	return a.Conn.Read(p)
}
