package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/static"
	"quantix/web"
)

// deadlineRecorder is a response recorder whose connection has a write deadline. It records the deadlines and the
// chunks.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	at   time.Time // deadline before the latest chunk
	seen []int     // sizes of the chunks
}

func (u *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	u.at = t
	return nil
}

func (u *deadlineRecorder) Write(b []byte) (int, error) {
	if left := time.Until(u.at); left <= 0 || left > 20*time.Second {
		return 0, fmt.Errorf("the write deadline is %v", u.at)
	}
	u.at = time.Time{}
	u.seen = append(u.seen, len(b))
	return u.ResponseRecorder.Write(b)
}

func TestWriteDeadlineExtendedPerChunk(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	for _, path := range []string{static.Path("vendor/htmx/htmx.min.js"), "/healthz", "/sign-in", "/nothing", "/api/v1/openapi.json", "/api/v1/vms", "/vms"} {
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		p.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if len(w.seen) == 0 && w.at.IsZero() {
			t.Errorf("%s: status %d without a write deadline", path, w.Code)
		}
		for _, n := range w.seen {
			if n > 64<<10 {
				t.Errorf("%s: a chunk of %d bytes", path, n)
			}
		}
	}
}

// requestWithoutReading sends many requests for the file on one connection and reads no response.
func requestWithoutReading(t *testing.T, address, path string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: quantix\r\n\r\n", 2000)); err != nil {
		t.Fatal(err)
	}
}

func TestNonReadingClientIsDisconnected(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	closed := make(chan struct{})
	s := httptest.NewUnstartedServer(p.server.Handler())
	var once sync.Once
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			once.Do(func() { close(closed) })
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	requestWithoutReading(t, s.Listener.Addr().String(), static.Path("vendor/htmx/htmx.min.js"))
	select {
	case <-closed:
	case <-time.After(40 * time.Second):
		t.Error("the connection is still open")
	}
}

// documentationAddressListener is a listener whose connections seem to come from an address that RFC 5737 reserves for
// documentation.
type documentationAddressListener struct {
	net.Listener
	from string
}

func (l documentationAddressListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return documentationAddressConn{conn, l.from}, nil
}

type documentationAddressConn struct {
	net.Conn
	from string
}

func (c documentationAddressConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

func TestConnectionsPerAddressLimited(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for from, want := range map[string]int{"192.0.2.1:1": 3, "[2001:db8::1]:1": 3, "10.1.2.3:1": 6, "127.0.0.1:1": 6} {
		base, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := web.LimitConnsPerAddress(documentationAddressListener{base, from}, 3, proxies)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") })}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
		var open []net.Conn
		ask := func() bool {
			conn, err := net.Dial("tcp", base.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			open = append(open, conn)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: quantix\r\n\r\n")
			_, err = http.ReadResponse(bufio.NewReader(conn), nil)
			return err == nil
		}
		served := 0
		for range 6 {
			if ask() {
				served++
			}
		}
		if served != want {
			t.Errorf("from %s: %d of 6 connections are served", from, served)
		}
		if want == 6 {
			continue
		}
		open[0].Close()
		for limit := time.Now().Add(10 * time.Second); !ask(); {
			if time.Now().After(limit) {
				t.Fatalf("from %s: a closed connection does not make room for a new one", from)
			}
		}
	}
}

func TestEventStreamsLimitedPerUser(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	first := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	second := p.newBrowser()
	second.post("/sign-in", url.Values{"name": {"mara"}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
	for range 20 {
		stream(t, first, "key=tasks")
		stream(t, second, "key=tasks")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/events?key=tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := second.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the user's 41st event stream gets %d", got.StatusCode)
	}
	stream(t, p.newSignedInBrowser("otto", fleet.RoleAdmin), "key=tasks")
}
