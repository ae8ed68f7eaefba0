package wire

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"
)

// SetClaimTimeout sets the timeout of a claim.
func (c *Client) SetClaimTimeout(d time.Duration) { c.claimLimit = d }

// SetResultDelay sets the maximum time that queued results wait for a result call in progress.
func (c *Client) SetResultDelay(d time.Duration) { c.results.maxDelay = d }

// WrapConns wraps each connection that the client dials.
func (c *Client) WrapConns(wrap func(net.Conn) net.Conn) {
	p := c.transport.Load().conns
	dial := p.dial
	p.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
}

// WaitForQueued waits until n results are queued.
func (c *Client) WaitForQueued(t *testing.T, n int) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c.results.mu.Lock()
		got := len(c.results.queue)
		c.results.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d wait, want %d", got, n)
		}
	}
}

// IsClaimParked reports whether the portal has confirmed that it holds a claim.
func (c *Client) IsClaimParked() bool {
	p := c.transport.Load().conns
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.conns, func(c *connection) bool { return len(c.exchanges) > 0 && c.exchanges[0].parked })
}
