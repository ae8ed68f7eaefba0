//go:build linux

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"quantix/agent/migration"
	"quantix/agent/transfer"
	"quantix/internal/testkit/goals"
)

const (
	tunnelBytes  = 2 << 30
	tunnelPiece  = 256 << 10
	tunnelRounds = 3
	tunnelShare  = 0.8 // minimum share of the reference's rate
)

// BenchmarkTunnel measures the rate of a live migration's memory stream: from a UNIX socket on one host, through the
// agents' connection, to a UNIX socket on the other host. The reference forwards the same bytes between the same
// sockets over plain TCP. The two run alternately, and the best time counts.
func BenchmarkTunnel(b *testing.B) {
	own := newHosts(b)
	b.ResetTimer()
	for range b.N {
		plain, ours := time.Duration(1<<62), time.Duration(1<<62)
		for range tunnelRounds {
			plain = min(plain, sendThrough(b, connectPlainTCP))
			ours = min(ours, sendThrough(b, own.connectAgents))
		}
		rate := func(d time.Duration) float64 { return tunnelBytes / (1 << 20) / d.Seconds() }
		share := rate(ours) / rate(plain)
		goals.Tunnel.Record(b, share >= tunnelShare, fmt.Sprintf("%.0f MiB/s", rate(ours)), fmt.Sprintf("plain TCP: %.0f MiB/s", rate(plain)), share)
	}
}

// sendThrough sends tunnelBytes into one UNIX socket and returns the time until they have arrived at the other one.
// connect forwards connections of the listener to the connections that dial opens.
func sendThrough(b *testing.B, connect func(b *testing.B, from net.Listener, dial func() (net.Conn, error))) time.Duration {
	b.Helper()
	dir := b.TempDir()
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(i))) //nolint:noctx // a listen on a file returns at once
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		listeners[i] = l
	}
	dialUNIX := func(i int) (net.Conn, error) { return net.Dial("unix", listeners[i].Addr().String()) } //nolint:noctx // same
	connect(b, listeners[0], func() (net.Conn, error) { return dialUNIX(1) })
	arrived := make(chan error, 1)
	go func() {
		in, err := listeners[1].Accept()
		if err == nil {
			defer in.Close()
			_, err = io.CopyN(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, tunnelBytes)
		}
		arrived <- err
	}()
	out, err := dialUNIX(0)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	began := time.Now()
	piece := make([]byte, tunnelPiece)
	for n := 0; n < tunnelBytes; n += tunnelPiece {
		if _, err := out.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-arrived; err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// connectPlainTCP forwards one connection over TCP on loopback, in pieces of io.Copy.
func connectPlainTCP(b *testing.B, from net.Listener, dial func() (net.Conn, error)) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listen on loopback returns at once
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	forward := func(accept, connect func() (net.Conn, error)) {
		in, err := accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := connect()
		if err != nil {
			return
		}
		defer out.Close()
		_, _ = io.Copy(struct{ io.Writer }{out}, struct{ io.Reader }{in})
	}
	go forward(from.Accept, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }) //nolint:noctx // loopback
	go forward(ln.Accept, dial)
}

// connectAgents forwards connections as the two agents of a live migration do.
func (h transferHosts) connectAgents(b *testing.B, from net.Listener, dial func() (net.Conn, error)) {
	ticket := transfer.NewTicket()
	listener, err := transfer.Open(h.self[1], h.peer[0], ticket.Hash(), transfer.PortRange{})
	if err != nil {
		b.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		link, err := acceptLink(b.Context(), listener)
		if err == nil {
			b.Cleanup(link.Close)
			go link.ForwardTo(func(byte) (net.Conn, error) { return dial() })
		}
		accepted <- err
	}()
	conn, err := transfer.Dial(b.Context(), []string{fmt.Sprintf("127.0.0.1:%d", listener.Port())}, h.self[0], h.peer[1], ticket)
	if err != nil {
		b.Fatal(err)
	}
	link := migration.NewLink(conn.Stream())
	b.Cleanup(link.Close)
	if err := <-accepted; err != nil {
		b.Fatal(err)
	}
	go link.ForwardFrom(from, 'm')
}

func acceptLink(ctx context.Context, listener *transfer.Listener) (*migration.Link, error) {
	in, err := listener.WaitPeer(ctx)
	if err != nil {
		return nil, err
	}
	return migration.NewLink(in.Stream()), nil
}
