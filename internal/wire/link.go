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

// turn is one request and its answer. Its line's lock guards all but req, claim and done.
type turn struct {
	req     *http.Request
	claim   bool
	written time.Time
	parked  bool // the portal said so
	ended   bool
	answer  answer
	err     error
	done    chan struct{}
	sent    chan struct{} // closed when nobody writes it any more
}

// end says what became of the turn, once. The caller has the line's lock.
func (t *turn) end(a answer, err error) {
	if !t.ended {
		t.ended, t.answer, t.err = true, a, err
		close(t.done)
	}
}

// link is one connection. Requests go out in the order of its turns, one claim and one call behind it at most, and answers come in the
// same order. Its line's lock guards turns and all below.
type link struct {
	line  *line
	conn  net.Conn
	in    *bufio.Reader
	out   *bufio.Writer
	turns []*turn
	used  time.Time
	over  bool
}

type state int

const (
	idle   state = iota // takes any turn
	busy                // will be idle soon
	parked              // takes a call, which ends the claim before it
	held                // by a claim of which the portal does not say that it is parked: it is an older one, or in trouble
)

func (c *link) state() state {
	switch {
	case len(c.turns) == 0:
		return idle
	case len(c.turns) > 1 || !c.turns[0].claim:
		return busy
	case c.turns[0].parked && !c.turns[0].written.IsZero(): // it may be known to be parked before whoever wrote it has noted that it is out
		return parked
	case !c.line.older && (c.turns[0].written.IsZero() || time.Since(c.turns[0].written) < heldUp):
		return busy
	}
	return held
}

// write sends the request. There is one who writes: nobody comes behind what is not written. A portal that does not read holds nobody for
// longer than ctx.
func (c *link) write(ctx context.Context, t *turn) {
	defer close(t.sent)
	stop := context.AfterFunc(ctx, func() { c.conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := t.req.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err != nil {
		c.end(err)
		return
	}
	t.written = time.Now()
	c.line.change()
}

// read takes the answers, and notices when the portal closes.
func (c *link) read() {
	for {
		t, err := c.next()
		if err != nil {
			c.fail(err)
			return
		}
		got, err := c.readAnswer(t)
		if err != nil {
			c.fail(err)
			return
		}
		c.answered(t, got)
	}
}

// next is the turn whose answer begins.
func (c *link) next() (*turn, error) {
	_, err := c.in.Peek(1)
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err != nil || len(c.turns) == 0 { // an answer to nothing is none
		return nil, errClosed
	}
	return c.turns[0], nil
}

// readAnswer reads the body to its end, too, so that the connection can be used again.
func (c *link) readAnswer(t *turn) (answer, error) {
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
			c.line.mu.Lock()
			t.parked, c.line.older = true, false
			c.line.change()
			c.line.mu.Unlock()
		}
	}
}

// sentGrace is how long an answer waits for its request's end. It may be seen before whoever wrote has noted that it is out; a portal that
// refuses a request unread does not take the rest.
const sentGrace = time.Second

func (c *link) answered(t *turn, a answer) {
	select {
	case <-t.sent:
	case <-time.After(sentGrace):
	}
	l := c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over {
		return
	}
	c.turns = slices.Delete(c.turns, 0, 1)
	if t.claim && len(c.turns) > 0 && a.status == http.StatusNoContent {
		t.end(answer{}, errTurn)
	} else {
		t.end(a, nil)
	}
	if c.used = time.Now(); a.last || t.written.IsZero() || l.retired && len(c.turns) == 0 {
		c.end(errClosed)
		return
	}
	if l.change(); len(c.turns) == 0 {
		c.rest(c.used)
	}
}

// rest closes a connection that nobody has used since: soon where there is another one.
func (c *link) rest(since time.Time) {
	time.AfterFunc(linger, func() {
		c.line.mu.Lock()
		defer c.line.mu.Unlock()
		switch {
		case c.over || len(c.turns) > 0 || c.used != since:
		case c.line.spare(c) || time.Since(since) >= idleMost:
			c.end(errClosed)
		default:
			c.rest(since)
		}
	})
}

// leave gives a turn up. With it goes the connection, on which the answer is still to come, unless a call is behind a claim that is left:
// then nobody gets the claim's answer.
func (c *link) leave(t *turn, err error) {
	l := c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.ended {
		return
	}
	t.end(answer{}, err)
	if len(c.turns) == 1 || c.turns[0] != t {
		c.end(err)
	}
}

func (c *link) fail(err error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.end(err)
}

// end ends the connection and all turns on it. The caller has the line's lock.
func (c *link) end(err error) {
	if c.over {
		return
	}
	c.over = true
	go c.conn.Close() // it says goodbye, which may take its time
	for _, t := range c.turns {
		t.end(answer{}, err)
	}
	l := c.line
	l.links = slices.DeleteFunc(l.links, func(o *link) bool { return o == c })
	l.change()
}
