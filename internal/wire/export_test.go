package wire

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"
)

// Patience has the client wait so long for a claim's answer.
func (c *Client) Patience(d time.Duration) { c.patience = d }

// Late has results wait so long for those that are on their way.
func (c *Client) Late(d time.Duration) { c.results.late = d }

// Wrap has the client use its connections by way of wrap.
func (c *Client) Wrap(wrap func(net.Conn) net.Conn) {
	l := c.keys.Load().line
	dial := l.dial
	l.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
}

// Waiting waits until so many results wait for those that are on their way.
func (c *Client) Waiting(t *testing.T, n int) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c.results.mu.Lock()
		got := len(c.results.waiting)
		c.results.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d wait, want %d", got, n)
		}
	}
}

// Parked reports whether the client has heard that a claim is parked.
func (c *Client) Parked() bool {
	l := c.keys.Load().line
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.links, func(c *link) bool { return len(c.turns) > 0 && c.turns[0].parked })
}
