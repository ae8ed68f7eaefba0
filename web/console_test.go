package web_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// consoleHost is a portal with one host and a running VM on that host. The simulated agent of the host dials the relays
// of consoles.
type consoleHost struct {
	*portal
	host *simulatedAgent
	vm   fleet.VMID
}

func newConsoleHost(t testing.TB) *consoleHost {
	t.Helper()
	p, agentURL := newPortalWithAgents(t)
	s := &consoleHost{portal: p, host: p.joinHost(agentURL, "h1")}
	s.vm = p.addVM(p.addProject("shop"), s.host.id, "web", fleet.Running)
	vm := wire.VMReport{ID: s.vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 4096}}
	s.host.sendReport(t, vm)
	return s
}

// dialRelay claims the next console.open job and dials the relay as the host.
func (s *consoleHost) dialRelay() *websocket.Conn {
	s.t.Helper()
	w := s.host.claimJob(s.t)
	if w.Kind != fleet.ConsoleOpen || w.VM == nil || w.VM.ID != s.vm {
		s.t.Fatalf("claimed %+v", w)
	}
	ws, err := s.host.DialRelay(s.t.Context(), w.Args.PortalURL, w.Args.Console)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ws.Close() })
	s.host.seq++
	if _, err := s.host.Finish(s.t.Context(), w.ID, wire.Finish{Epoch: w.Epoch, Seq: s.host.seq, Outcome: wire.Done}); err != nil {
		s.t.Fatal(err)
	}
	return ws
}

// vncClientHello is the start of what a VNC client sends: version, no authentication, shared.
var vncClientHello = []byte("RFB 003.008\n\x01\x01")

type consoleTicketBody struct{ URL, Protocol string }

func (s *consoleHost) requestTicket(b *browser) consoleTicketBody {
	s.t.Helper()
	a := b.post("/vms/"+string(s.vm)+"/console/ticket", nil, "Accept", "application/json").requireStatus(s.t, http.StatusOK)
	var t consoleTicketBody
	if err := json.Unmarshal([]byte(a.body), &t); err != nil || t.URL == "" || !strings.HasPrefix(t.Protocol, "quantix.ticket.") {
		s.t.Fatalf("%s, %v", a.body, err)
	}
	return t
}

// openConsole dials the relay as noVNC does in a browser. If the upgrade is refused, it returns a nil connection and
// the response.
func (s *consoleHost) openConsole(b *browser, t consoleTicketBody, header ...string) (*websocket.Conn, answer) {
	s.t.Helper()
	h := http.Header{"Origin": {s.url}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Del(header[i])
		if header[i+1] != "" {
			h.Set(header[i], header[i+1])
		}
	}
	d := websocket.Dialer{Jar: b.http.Jar, Subprotocols: []string{"binary"}}
	if t.Protocol != "" {
		d.Subprotocols = append(d.Subprotocols, t.Protocol)
	}
	ws, got, err := d.Dial("ws"+strings.TrimPrefix(s.url, "http")+t.URL, h)
	if err == nil {
		s.t.Cleanup(func() { ws.Close() })
		if ws.Subprotocol() != "binary" {
			s.t.Errorf("subprotocol %q", ws.Subprotocol())
		}
		return ws, answer{}
	}
	if !errors.Is(err, websocket.ErrBadHandshake) {
		s.t.Fatal(err)
	}
	text, _ := io.ReadAll(got.Body)
	return nil, answer{got.StatusCode, got.Header, string(text)}
}

func receiveBytes(ws *websocket.Conn, size int) ([]byte, error) {
	var got bytes.Buffer
	ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	for got.Len() < size {
		_, message, err := ws.NextReader()
		if err == nil {
			_, err = io.Copy(&got, message)
		}
		if err != nil {
			return got.Bytes(), err
		}
	}
	return got.Bytes(), nil
}

func TestConsoleRefusedBeforeWebsocketUpgrade(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann, bob := s.newSignedInBrowser("ann", fleet.RoleAdmin), s.newSignedInBrowser("bob", fleet.RoleAdmin)
	vic := s.newSignedInBrowser("vic", fleet.RoleViewer)
	refuse := func(name string, status int, b *browser, k consoleTicketBody, header ...string) {
		t.Helper()
		ws, a := s.openConsole(b, k, header...)
		if ws != nil {
			t.Errorf("%s: upgraded", name)
			return
		}
		if a.status != status {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
		}
		a.requireProblem(t, status, "")
	}
	vic.post("/vms/"+string(s.vm)+"/console/ticket", nil, "Accept", "application/json").requireProblem(t, http.StatusForbidden, "")
	s.newBrowser().post("/vms/"+string(s.vm)+"/console/ticket", nil, "Accept", "application/json").requireProblem(t, http.StatusUnauthorized, "")

	behind := ann.post("/vms/"+string(s.vm)+"/console/ticket", nil, "Accept", "application/json", "Sec-Fetch-Site", "same-origin", "Origin", "https://quantix.example")
	behind.requireProblem(t, http.StatusForbidden, "")
	behind.contains(t, "https://quantix.example", "publicUrl", "proxy")

	k := s.requestTicket(ann)
	refuse("another site's page", http.StatusForbidden, ann, k, "Origin", "https://evil.example")
	refuse("another scheme", http.StatusForbidden, ann, k, "Origin", "https"+strings.TrimPrefix(s.url, "http"))
	refuse("another port", http.StatusForbidden, ann, k, "Origin", "http://127.0.0.1:1")
	refuse("no origin", http.StatusForbidden, ann, k, "Origin", "")
	refuse("a sandboxed page", http.StatusForbidden, ann, k, "Origin", "null")
	refuse("no session", http.StatusUnauthorized, s.newBrowser(), k)
	refuse("do not have permission", http.StatusForbidden, vic, k)
	refuse("another's session", http.StatusNotFound, bob, k)
	refuse("no ticket", http.StatusUnauthorized, ann, consoleTicketBody{URL: k.URL})
	refuse("a wrong ticket", http.StatusNotFound, ann, consoleTicketBody{k.URL, "quantix.ticket." + strings.Repeat("A", 43)})
	refuse("another console", http.StatusNotFound, ann, consoleTicketBody{s.requestTicket(ann).URL, k.Protocol})
	ann.get(k.URL, "Origin", s.url).requireStatus(t, http.StatusBadRequest) // a request without upgrade does not use the ticket up
	if ws, a := s.openConsole(ann, k); ws == nil {
		t.Fatalf("the valid ticket: %d %s", a.status, a.body)
	}
	refuse("a used ticket", http.StatusNotFound, ann, k)
	late := s.requestTicket(ann)
	s.execSQL("UPDATE console_tickets SET expires_at = now() - interval '1 second'")
	refuse("a late ticket", http.StatusNotFound, ann, late)

	stopped := s.addVM(s.addProject("lab"), s.host.id, "off", fleet.Stopped)
	ann.post("/vms/"+string(stopped)+"/console/ticket", nil, "Accept", "application/json").requireProblem(t, http.StatusConflict, "")
	if _, err := s.host.DialRelay(t.Context(), "", fleet.NewID[fleet.PairID]()); wire.StatusOf(err) != http.StatusNotFound {
		t.Errorf("the host dialled a console without a ticket: %v", err)
	}
	if strings.Contains(s.log.String(), strings.TrimPrefix(k.Protocol, "quantix.ticket.")) {
		t.Error("the log contains a ticket")
	}
}

func TestConsoleRelaysTenMegabytesInEachDirection(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	browser, a := s.openConsole(ann, s.requestTicket(ann))
	if browser == nil {
		t.Fatal(a)
	}
	host := s.dialRelay()
	const size = 10 << 20
	var wg sync.WaitGroup
	send := func(from, to *websocket.Conn, piece int, data []byte) {
		wg.Go(func() {
			for rest := data; len(rest) > 0; {
				n := min(len(rest), piece)
				if err := from.WriteMessage(websocket.BinaryMessage, rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		})
		wg.Go(func() {
			if got, err := receiveBytes(to, len(data)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
	picture := make([]byte, size)
	rand.Read(picture)
	send(host, browser, 32<<10, picture)
	typed := slices.Clone(vncClientHello)
	for len(typed) < size {
		text := make([]byte, 1+mathrand.IntN(100_000))
		rand.Read(text)
		typed = append(binary.BigEndian.AppendUint32(append(typed, 6, 0, 0, 0), uint32(len(text))), text...)
	}
	send(browser, host, 5000, typed)
	wg.Wait()
}

// Behind a load balancer, the request for the ticket and the websocket of the same page may reach different portals.
func TestConsoleRelayedByPortalThatAcceptedWebsocket(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	landed := *s
	var agentURL string
	landed.portal, agentURL = newPortalWithAgentsOn(t, s.pool)
	for range 3 {
		browser, a := landed.openConsole(ann, s.requestTicket(ann))
		if browser == nil {
			t.Fatal(a)
		}
		host := s.dialRelay() // claimed from the first portal
		if at := host.NetConn().RemoteAddr().String(); "https://"+at != agentURL {
			t.Errorf("the host dialled %s, but the browser waits at %s", at, agentURL)
		}
		if err := host.WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n")); err != nil {
			t.Fatal(err)
		}
		if got, err := receiveBytes(browser, 12); err != nil || string(got) != "RFB 003.008\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
	// The host connects only to portals with a certificate from its CA, even if a job names another address.
	foreign := httptest.NewTLSServer(http.NotFoundHandler())
	defer foreign.Close()
	if _, err := s.host.DialRelay(t.Context(), foreign.URL, fleet.NewID[fleet.PairID]()); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("a host dialled a portal with an unknown certificate: %v", err)
	}
}

// A sign-out at one portal also ends the user's streams and consoles at the other portals.
func TestSignOutEndsStreamsAndConsolesOnEveryPortal(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	other := *s
	other.portal, _ = newPortalWithAgentsOn(t, s.pool)
	there := *ann
	there.url = other.url
	lines := stream(t, &there, "key=vm:"+string(s.vm))
	browser, a := other.openConsole(ann, s.requestTicket(ann))
	if browser == nil {
		t.Fatal(a)
	}
	host := s.dialRelay()
	ann.post("/sign-out", nil).requireStatus(t, http.StatusSeeOther)
	expectStreamEnd(t, lines)
	for _, half := range []*websocket.Conn{browser, host} {
		var said *websocket.CloseError
		if _, err := receiveBytes(half, 1); !errors.As(err, &said) || said.Text != "You are signed out. Sign in again." {
			t.Errorf("the console ends with %v", err)
		}
	}
}

func TestConsoleEndsWhenHostOrBrowserDisconnects(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	for _, browserLeaves := range []bool{true, false} {
		browser, a := s.openConsole(ann, s.requestTicket(ann))
		if browser == nil {
			t.Fatal(a)
		}
		host := s.dialRelay()
		leaves, stays := host, browser
		if browserLeaves {
			leaves, stays = browser, host
		}
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "Done.")
		if err := leaves.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		var said *websocket.CloseError
		if _, err := receiveBytes(stays, 1); !errors.As(err, &said) || said.Code != websocket.CloseNormalClosure || said.Text != "Done." {
			t.Errorf("the browser closes: %t; the other end got %v", browserLeaves, err)
		}
	}
}

func TestTenConcurrentConsolesKeepDataApart(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	var wg sync.WaitGroup
	for i := range 10 {
		browser, a := s.openConsole(ann, s.requestTicket(ann))
		if browser == nil {
			t.Fatal(a)
		}
		host := s.dialRelay()
		wg.Go(func() {
			want := fmt.Sprint("screen ", i)
			if err := host.WriteMessage(websocket.BinaryMessage, []byte(want)); err != nil {
				t.Error(err)
			}
			if got, err := receiveBytes(browser, len(want)); err != nil || string(got) != want {
				t.Errorf("console %d shows %q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
}

func TestAPIClientOpensConsole(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	admin := s.newAPIClient("ann", fleet.RoleAdmin, nil)
	opened := make(chan *websocket.Conn, 1)
	go func() {
		ws, err := admin.Console(t.Context(), s.vm)
		if err != nil {
			t.Error(err)
		}
		opened <- ws
	}()
	host := s.dialRelay()
	if err := host.WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n")); err != nil {
		t.Fatal(err)
	}
	ws := <-opened
	if ws == nil {
		return
	}
	defer ws.Close()
	if got, err := receiveBytes(ws, 12); err != nil || string(got) != "RFB 003.008\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestConsoleEndsWhenPermissionRevoked(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	root := fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}
	ann, program := s.newSignedInBrowser("ann", fleet.RoleOperator), s.newAPIClient("bob", fleet.RoleOperator, nil)
	for _, c := range []struct {
		name, user string
		open       func() *websocket.Conn
		change     identity.UserInput
		says       string
	}{
		{"disabled user's", "ann", func() *websocket.Conn {
			ws, a := s.openConsole(ann, s.requestTicket(ann))
			if ws == nil {
				t.Fatal(a)
			}
			return ws
		}, identity.UserInput{Name: "ann", Role: fleet.RoleOperator, Disabled: true}, "You are signed out. Sign in again."},
		{"API client's, whose user lost the role", "bob", func() *websocket.Conn {
			ws, err := program.Console(t.Context(), s.vm)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ws.Close() })
			return ws
		}, identity.UserInput{Name: "bob", Role: fleet.RoleViewer}, "You may no longer use this VM."},
	} {
		browser := c.open()
		host := s.dialRelay()
		if _, err := s.control.UpdateUser(t.Context(), root, fleet.UserID(c.user), c.change); err != nil {
			t.Fatal(err)
		}
		for _, half := range []*websocket.Conn{browser, host} {
			var said *websocket.CloseError
			if _, err := receiveBytes(half, 1); !errors.As(err, &said) || said.Text != c.says {
				t.Errorf("%s console: %v", c.name, err)
			}
		}
	}
}
