//go:build linux

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
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
// sockets over plain TCP. The two run alternately, and the best time counts. Over loopback, both hosts' programs and
// both encryptions share the machine's processors. Over a link, each host has its own network namespace.
func BenchmarkTunnel(b *testing.B) {
	own := newHosts(b)
	b.ResetTimer()
	for range b.N {
		ours, plain := own.measureTunnel(b, loopback, tunnelBytes)
		goals.Tunnel.Record(b, ours/plain >= tunnelShare, fmt.Sprintf("%.0f MiB/s", ours), fmt.Sprintf("plain TCP: %.0f MiB/s", plain), ours/plain)
		fast, plainFast := own.measureTunnel(b, newShapedLink(b, "10gbit"), tunnelBytes)
		slow, plainSlow := own.measureTunnel(b, newShapedLink(b, "1gbit"), tunnelBytes/8)
		share := min(fast/plainFast, slow/plainSlow)
		goals.TunnelOverLink.Record(b, share >= tunnelShare, fmt.Sprintf("%.0f · %.0f MiB/s", fast, slow), fmt.Sprintf("plain TCP: %.0f · %.0f MiB/s", plainFast, plainSlow), share)
	}
}

// measureTunnel returns the rates of the agents and of plain TCP in MiB/s.
func (h transferHosts) measureTunnel(b *testing.B, over hostLink, bytes int) (ours, plain float64) {
	b.Helper()
	best, bestPlain := time.Duration(1<<62), time.Duration(1<<62)
	for range tunnelRounds {
		bestPlain = min(bestPlain, sendThrough(b, bytes, over.connectPlainTCP))
		best = min(best, sendThrough(b, bytes, func(b *testing.B, from net.Listener, dial func() (net.Conn, error)) {
			h.connectAgents(b, over, from, dial)
		}))
	}
	rate := func(d time.Duration) float64 { return float64(bytes) / (1 << 20) / d.Seconds() }
	return rate(best), rate(bestPlain)
}

// hostLink is the network between the two hosts of a tunnel.
type hostLink struct {
	address        string       // of the target
	source, target func(func()) // run a function in the host's network
}

var loopback = hostLink{address: "127.0.0.1", source: func(do func()) { do() }, target: func(do func()) { do() }}

// newShapedLink returns a link of two network namespaces, limited to the rate in both directions.
func newShapedLink(b *testing.B, rate string) hostLink {
	b.Helper()
	l := hostLink{address: "10.1.1.2"}
	var tid int
	l.source, l.target = newNetwork(b), newNetwork(b)
	l.target(func() { tid = syscall.Gettid() })
	ip := func(in func(func()), args ...string) {
		in(func() {
			if out, err := exec.CommandContext(b.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
				b.Errorf("%v: %v: %s", args, err, out)
			}
		})
	}
	ip(l.source, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(tid))
	for _, end := range []struct {
		in      func(func())
		address string
	}{{l.source, "10.1.1.1"}, {l.target, l.address}} {
		ip(end.in, "ip", "addr", "add", end.address+"/24", "dev", "eth0")
		ip(end.in, "ip", "link", "set", "eth0", "up")
		ip(end.in, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "4mb", "latency", "10ms")
	}
	if b.Failed() {
		b.FailNow()
	}
	return l
}

// newNetwork returns a function that runs functions in a new network namespace. The namespace ends with the benchmark.
func newNetwork(b *testing.B) func(func()) {
	b.Helper()
	work, made := make(chan func()), make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, because it is never unlocked
		made <- syscall.Unshare(syscall.CLONE_NEWNET)
		for do := range work {
			do()
		}
	}()
	b.Cleanup(func() { close(work) })
	if err := <-made; err != nil {
		b.Fatal(err)
	}
	return func(do func()) {
		done := make(chan struct{})
		work <- func() { defer close(done); do() }
		<-done
	}
}

// sendThrough sends bytes into one UNIX socket and returns the time until they have arrived at the other one.
// connect forwards connections of the listener to the connections that dial opens.
func sendThrough(b *testing.B, bytes int, connect func(b *testing.B, from net.Listener, dial func() (net.Conn, error))) time.Duration {
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
			_, err = io.CopyN(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, int64(bytes))
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
	for n := 0; n < bytes; n += tunnelPiece {
		if _, err := out.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-arrived; err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// connectPlainTCP forwards one connection over plain TCP, in pieces of io.Copy.
func (l hostLink) connectPlainTCP(b *testing.B, from net.Listener, dial func() (net.Conn, error)) {
	var ln net.Listener
	var err error
	l.target(func() { ln, err = net.Listen("tcp", l.address+":0") }) //nolint:noctx // a listen returns at once
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
	go forward(from.Accept, func() (net.Conn, error) { return l.dial(ln.Addr().(*net.TCPAddr).Port) })
	go forward(ln.Accept, dial)
}

// dial opens a connection from the source to a port of the target.
func (l hostLink) dial(port int) (conn net.Conn, err error) {
	l.source(func() { conn, err = net.Dial("tcp", net.JoinHostPort(l.address, strconv.Itoa(port))) }) //nolint:noctx // on this machine
	return conn, err
}

// connectAgents forwards connections as the two agents of a live migration do.
func (h transferHosts) connectAgents(b *testing.B, over hostLink, from net.Listener, dial func() (net.Conn, error)) {
	ticket := transfer.NewTicket()
	var listener *transfer.Listener
	var err error
	over.target(func() { listener, err = transfer.Open(h.self[1], h.peer[0], ticket.Hash(), transfer.PortRange{}) })
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
	conn, err := over.dial(listener.Port())
	if err != nil {
		b.Fatal(err)
	}
	out, err := transfer.Connect(b.Context(), conn, h.self[0], h.peer[1], ticket)
	if err != nil {
		b.Fatal(err)
	}
	link := migration.NewLink(out.Stream(), migration.Source)
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
	return migration.NewLink(in.Stream(), migration.Target), nil
}
