package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// exchange is one request to the portal and its answer. The pool's lock protects the fields except req, claim and done.
type exchange struct {
	req     *http.Request
	claim   bool
	written time.Time
	parked  bool // the portal has confirmed that it holds the claim
	ended   bool
	answer  answer
	err     error
	done    chan struct{}
	sent    chan struct{} // closed when the request is written or its writing has failed
}

// setResult sets the result of the exchange, once. The caller holds the pool's lock.
func (t *exchange) setResult(a answer, err error) {
	if !t.ended {
		t.ended, t.answer, t.err = true, a, err
		close(t.done)
	}
}

// connection is one connection to the portal. It sends the requests of its exchanges in order: one claim (a long poll
// for jobs), and at most one call behind the claim. Answers arrive in the same order. The pool's lock protects
// exchanges and all later fields.
type connection struct {
	pool      *connPool
	conn      net.Conn
	in        *bufio.Reader
	out       *bufio.Writer
	exchanges []*exchange
	lastUsed  time.Time
	closed    bool
}

type connState int

const (
	idle   connState = iota // accepts any exchange
	busy                    // with a call in progress, which ends soon
	parked                  // the portal holds a claim; a call is accepted and ends the claim
	// a claim is in progress, and the portal has not confirmed that it holds the claim, because the portal is of an older
	// version or is stalled
	blocked
)

func (c *connection) state() connState {
	switch {
	case len(c.exchanges) == 0:
		return idle
	case len(c.exchanges) > 1 || !c.exchanges[0].claim:
		return busy
	// The portal's confirmation can arrive before the writing goroutine has set written.
	case c.exchanges[0].parked && !c.exchanges[0].written.IsZero():
		return parked
	case !c.pool.olderPortal && (c.exchanges[0].written.IsZero() || time.Since(c.exchanges[0].written) < busyWait):
		return busy
	}
	return blocked
}

// write sends the request. A connection has one writer at a time, because no exchange is queued behind an unwritten
// one. If the portal does not read, write blocks only until ctx ends.
func (c *connection) write(ctx context.Context, t *exchange) {
	defer close(t.sent)
	stop := context.AfterFunc(ctx, func() { c.conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := t.req.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if err != nil {
		c.close(err)
		return
	}
	t.written = time.Now()
	c.pool.notify()
}

// read receives the answers and notices when the portal closes the connection.
func (c *connection) read() {
	for {
		t, err := c.waitForAnswer()
		if err != nil {
			c.fail(err)
			return
		}
		got, err := c.readAnswer(t)
		if err != nil {
			c.fail(err)
			return
		}
		c.handleAnswer(t, got)
	}
}

// waitForAnswer waits for the first byte of an answer, and returns the exchange that the answer belongs to.
func (c *connection) waitForAnswer() (*exchange, error) {
	_, err := c.in.Peek(1)
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if err != nil || len(c.exchanges) == 0 { // an answer that no request is waiting for is an error
		return nil, errClosed
	}
	return c.exchanges[0], nil
}

// readAnswer reads the body completely, so that the connection can be used again.
func (c *connection) readAnswer(t *exchange) (answer, error) {
	for {
		head, err := http.ReadResponse(c.in, t.req)
		if err != nil {
			return answer{}, err
		}
		body, err := io.ReadAll(io.LimitReader(head.Body, maxAnswer+1))
		head.Body.Close()
		switch {
		case err != nil:
			return answer{}, fmt.Errorf("read the portal's answer: %w", err)
		case len(body) > maxAnswer:
			return answer{}, errors.New("the portal's answer is larger than 16 MiB")
		case head.StatusCode >= 200:
			return answer{head.StatusCode, body, head.Close}, nil
		case head.StatusCode == http.StatusProcessing:
			c.pool.mu.Lock()
			t.parked, c.pool.olderPortal = true, false
			c.pool.notify()
			c.pool.mu.Unlock()
		}
	}
}

// sentGrace is how long an answer waits until its request is marked as written. An answer can arrive before the writer
// has recorded that the request was sent, because a portal that refuses a request early does not read all of it.
const sentGrace = time.Second

func (c *connection) handleAnswer(t *exchange, a answer) {
	select {
	case <-t.sent:
	case <-time.After(sentGrace):
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.closed {
		return
	}
	c.exchanges = slices.Delete(c.exchanges, 0, 1)
	if t.claim && len(c.exchanges) > 0 && a.status == http.StatusNoContent {
		t.setResult(answer{}, errPreempted)
	} else {
		t.setResult(a, nil)
	}
	if c.lastUsed = time.Now(); a.last || t.written.IsZero() || p.retired && len(c.exchanges) == 0 {
		c.close(errClosed)
		return
	}
	if p.notify(); len(c.exchanges) == 0 {
		c.closeWhenIdle(c.lastUsed)
	}
}

// closeWhenIdle closes the connection after an idle time. lastUse is the time of the last call: the timer stops once a
// later call has used the connection. If another connection exists, the idle time is only spareIdleLimit.
func (c *connection) closeWhenIdle(lastUse time.Time) {
	time.AfterFunc(spareIdleLimit, func() {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		switch {
		case c.closed || len(c.exchanges) > 0 || c.lastUsed != lastUse:
		case c.pool.isRedundant(c) || time.Since(lastUse) >= soleIdleLimit:
			c.close(errClosed)
		default:
			c.closeWhenIdle(lastUse)
		}
	})
}

// abandon gives up an exchange. It closes the connection, because the answer is still outstanding. Exception: if a call
// is queued behind the abandoned claim, the connection stays open and the claim's answer is discarded.
func (c *connection) abandon(t *exchange, err error) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.ended {
		return
	}
	t.setResult(answer{}, err)
	if len(c.exchanges) == 1 || c.exchanges[0] != t {
		c.close(err)
	}
}

func (c *connection) fail(err error) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.close(err)
}

// close closes the connection and ends all its exchanges. The caller holds the pool's lock.
func (c *connection) close(err error) {
	if c.closed {
		return
	}
	c.closed = true
	go c.conn.Close() // the TLS close message can block
	for _, t := range c.exchanges {
		t.setResult(answer{}, err)
	}
	p := c.pool
	p.conns = slices.DeleteFunc(p.conns, func(o *connection) bool { return o == c })
	p.notify()
}
