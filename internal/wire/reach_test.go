package wire_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Reach needs a new connection, a certificate of the portal's authority, and an answer of any status.
func TestReachVerifiesPortal(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dialled := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	refuses := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }
	c := a.client(a.startServer(loopback, refuses).URL)
	for range 2 {
		if err := c.CheckReachable(t.Context(), dial); err != nil {
			t.Error(err)
		}
	}
	if dialled != 2 {
		t.Errorf("%d connections for two tries", dialled)
	}
	other := newAuthority(t)
	if err := a.client(other.startServer(loopback, refuses).URL).CheckReachable(t.Context(), dial); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("portal of another authority counts as reached: %v", err)
	}
	blocked := errors.New("operation not permitted")
	if err := c.CheckReachable(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, blocked }); !errors.Is(err, blocked) {
		t.Errorf("the kernel error is missing: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	unresponsive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unresponsive.Close()
	if err := a.client("https://"+unresponsive.Addr().String()).CheckReachable(ctx, dial); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("no answer: %v", err)
	}
}
