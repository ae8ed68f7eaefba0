package web

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/web/bodylimit"
)

const (
	// writeDeadlineInterval and writeDeadlineChunk are the minimum rate at which a client must read a response: 64 KiB
	// every 15 s.
	writeDeadlineInterval = 15 * time.Second
	writeDeadlineChunk    = 64 << 10
)

// limitClientReadTime is the middleware that closes the connections of clients that read too slowly. Streams set their
// own deadlines.
func limitClientReadTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		control := http.NewResponseController(c.Response().Writer)
		// SetWriteDeadline fails for a connection that supports no deadlines, such as a test's recorder. These errors
		// are ignored.
		if routeOf(c).kind.isLongLived() {
			_ = control.SetWriteDeadline(time.Time{}) // clears the deadline of the previous response on this connection
			return next(c)
		}
		// This deadline applies until the handler begins to write.
		_ = control.SetWriteDeadline(time.Now().Add(pageTimeout + bodylimit.ReadTimeout + writeDeadlineInterval))
		c.Response().Writer = &deadlineWriter{c.Response().Writer, control}
		return next(c)
	}
}

// deadlineWriter is a response writer that extends the connection's write deadline before each chunk.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *deadlineWriter) WriteHeader(status int) {
	w.extendDeadline()
	w.ResponseWriter.WriteHeader(status)
}

func (w *deadlineWriter) Write(b []byte) (n int, err error) {
	for {
		piece := b[n:min(n+writeDeadlineChunk, len(b))]
		w.extendDeadline()
		wrote, err := w.ResponseWriter.Write(piece)
		if n += wrote; err != nil || n == len(b) {
			return n, err
		}
	}
}

func (w *deadlineWriter) extendDeadline() {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeDeadlineInterval))
}

// LimitConnsPerAddress wraps l in a listener that allows maxConns concurrent connections per client address (per /64 network
// for IPv6) and closes all others. Connections from this machine and from the exempt networks, such as proxies for many
// users, are not limited. With maxConns 0, there is no limit at all.
func LimitConnsPerAddress(l net.Listener, maxConns int, exempt []netip.Prefix) net.Listener {
	if maxConns == 0 {
		return l
	}
	return &limitedListener{Listener: l, maxPerAddress: maxConns, exemptNetworks: exempt, open: map[netip.Addr]int{}}
}

type limitedListener struct {
	net.Listener
	maxPerAddress  int
	exemptNetworks []netip.Prefix

	mu   sync.Mutex
	open map[netip.Addr]int
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, bounded := l.countedAddress(conn.RemoteAddr())
		switch {
		case !bounded:
			return conn, nil
		case l.tryAcquire(from):
			leave := sync.OnceFunc(func() { l.release(from) })
			if tcp, ok := conn.(*net.TCPConn); ok {
				return &addressCountedTCPConn{tcp, leave}, nil
			}
			return &addressCountedConn{conn, leave}, nil
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // close with a reset, to leave no TIME_WAIT state for a minute
		}
		_ = conn.Close()
	}
}

// countedAddress returns the address (or IPv6 network) whose count includes a connection from remote, and whether that
// count is limited.
func (l *limitedListener) countedAddress(remote net.Addr) (netip.Addr, bool) {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Addr{}, false
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return ip, false
	}
	for _, p := range l.exemptNetworks {
		if p.Contains(ip) {
			return ip, false
		}
	}
	if ip.Is6() {
		ip = netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip, true
}

func (l *limitedListener) tryAcquire(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.maxPerAddress {
		return false
	}
	l.open[from]++
	return true
}

func (l *limitedListener) release(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] <= 0 {
		delete(l.open, from)
	}
}

// addressCountedConn is a connection that calls leave when it is closed. leave lowers the connection count of the
// client's address.
type addressCountedConn struct {
	net.Conn
	leave func()
}

func (c *addressCountedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// addressCountedTCPConn is addressCountedConn for a TCP connection. It keeps the optimized methods of *net.TCPConn,
// such as vectored writes.
type addressCountedTCPConn struct {
	*net.TCPConn
	leave func()
}

func (c *addressCountedTCPConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}
