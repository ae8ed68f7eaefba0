package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// use is a relay configuration with a different text for each side.
var use = KindConfig{
	Kind:         Console,
	Wait:         [2]time.Duration{15 * time.Second, 30 * time.Second},
	NoPeer:       [2]string{"Nobody answered.", "Nobody asked."},
	Disconnected: [2]string{"The asker left.", "The answerer left."},
	Unreachable:  [2]string{"The asker is silent.", "The answerer is silent."},
	Taken:        "Taken.",
	NotBinary:    "Binary only.",
}

// parties are the two parties of every relay in these tests.
var parties = [2]Party{{User: "ann", Session: "s1"}, {Host: "h1"}}

func ticketFor(id string) Ticket { return Ticket{fleet.PairID(id), Console, parties} }

// portal serves the two ends of a broker's relays at /asker/<id> and /answerer/<id>. results receives the result of
// each end's handler.
type portal struct {
	*Broker
	url      string
	results  chan error
	messages atomic.Int64
}

func newPortal(t testing.TB, ctx context.Context) *portal {
	p := &portal{Broker: NewBroker(use), results: make(chan error, 64)}
	server := httptest.NewServer(p.handler(ctx))
	t.Cleanup(server.Close)
	p.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return p
}

func (p *portal) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, admit func(id string) (End, error), tap *Tap) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			end, err := admit(r.PathValue("id"))
			if err != nil {
				p.results <- err
				return
			}
			ws, err := Upgrade(w, r)
			if err == nil {
				err = p.Serve(ctx, end, ws, tap)
			}
			p.results <- err
		})
	}
	serve("/asker/{id}", func(id string) (End, error) { return ticketFor(id).Admit(parties[Requester]) }, &Tap{OnMessage: func() { p.messages.Add(1) }})
	serve("/answerer/{id}", func(id string) (End, error) { return ticketFor(id).Admit(parties[Answerer]) }, nil)
	serve("/foreign/{id}", func(id string) (End, error) { // this end has another ticket for the same relay
		t := ticketFor(id)
		t.Parties[Answerer] = Party{Host: "h2"}
		return t.Admit(Party{Host: "h2"})
	}, nil)
	return mux
}

func (p *portal) dial(t testing.TB, side, id string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"binary"}}
	ws, _, err := d.Dial(p.url+"/"+side+"/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	return ws
}

// waitForCounts waits until the broker's counts match.
func (p *portal) waitForCounts(t testing.TB, open, waiting int) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); ; {
		o, w := p.Counts(Console)
		if o == open && w == waiting {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("open %d, waiting %d; want %d, %d", o, w, open, waiting)
		}
		time.Sleep(time.Millisecond)
	}
}

func receiveBytes(ws *websocket.Conn, size int) ([]byte, error) {
	var got bytes.Buffer
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

func waitClose(t *testing.T, ws *websocket.Conn) *websocket.CloseError {
	t.Helper()
	_, _, err := ws.ReadMessage()
	var closeErr *websocket.CloseError
	if !errors.As(err, &closeErr) {
		t.Fatalf("got %v, want a close frame", err)
	}
	return closeErr
}

func TestEitherRelaySideMayConnectFirst(t *testing.T) {
	t.Parallel()
	for _, order := range [][2]string{{"asker", "answerer"}, {"answerer", "asker"}} {
		p := newPortal(t, t.Context())
		first := p.dial(t, order[0], "c1")
		p.waitForCounts(t, 0, 1)
		second := p.dial(t, order[1], "c1")
		p.waitForCounts(t, 1, 0)
		if first.Subprotocol() != "binary" || second.Subprotocol() != "binary" {
			t.Errorf("subprotocols %q, %q", first.Subprotocol(), second.Subprotocol())
		}
		for _, pair := range [][2]*websocket.Conn{{first, second}, {second, first}} {
			if err := pair[0].WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n")); err != nil {
				t.Fatal(err)
			}
			if got, err := receiveBytes(pair[1], 12); err != nil || string(got) != "RFB 003.008\n" {
				t.Errorf("%s first: got %q, %v", order[0], got, err)
			}
		}
	}
}

func TestRelayIsFullDuplex(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	asker, answerer := p.dial(t, "asker", "c"), p.dial(t, "answerer", "c")
	const size = 10 << 20
	var wg sync.WaitGroup
	send := func(from, to *websocket.Conn, pieces []int) {
		data := make([]byte, size)
		rand.Read(data)
		wg.Go(func() {
			rest := data
			for i := 0; len(rest) > 0; i++ {
				n := min(len(rest), pieces[i%len(pieces)])
				if err := from.WriteMessage(websocket.BinaryMessage, rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		})
		wg.Go(func() {
			got, err := receiveBytes(to, size)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, %v; the same: %v", len(got), err, bytes.Equal(got, data))
			}
		})
	}
	send(asker, answerer, []int{1, 126, 65536, 4096, 1 << 20, 3})
	send(answerer, asker, []int{32 << 10, 16, 100 << 10, 1 << 20, 32<<10 + 1})
	wg.Wait()
}

func TestLargeMessageForwardedInChunks(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	asker, answerer := p.dial(t, "asker", "c"), p.dial(t, "answerer", "c")
	w, err := answerer.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 3*chunkSize)); err != nil { // the message is not complete yet
		t.Fatal(err)
	}
	if got, err := receiveBytes(asker, 2*chunkSize); err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestCloseCodeAndReasonForwarded(t *testing.T) {
	t.Parallel()
	for _, sides := range [][2]string{{"asker", "answerer"}, {"answerer", "asker"}} {
		p := newPortal(t, t.Context())
		leaves, stays := p.dial(t, sides[0], "c"), p.dial(t, sides[1], "c")
		p.waitForCounts(t, 1, 0)
		if err := leaves.WriteMessage(websocket.BinaryMessage, []byte("last words")); err != nil {
			t.Fatal(err)
		}
		message := websocket.FormatCloseMessage(4001, "The VM was stopped.")
		if err := leaves.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if got, err := receiveBytes(stays, 10); err != nil || string(got) != "last words" {
			t.Errorf("got %q, %v", got, err)
		}
		if closeErr := waitClose(t, stays); closeErr.Code != 4001 || closeErr.Text != "The VM was stopped." {
			t.Errorf("%s disconnected: %v", sides[0], closeErr)
		}
		p.waitForCounts(t, 0, 0)
	}
}

func TestDisconnectOfOneSideEndsOtherSide(t *testing.T) {
	t.Parallel()
	for sides, want := range map[[2]string]string{
		{"asker", "answerer"}: "The asker left.", {"answerer", "asker"}: "The answerer left.",
	} {
		p := newPortal(t, t.Context())
		leaves, stays := p.dial(t, sides[0], "c"), p.dial(t, sides[1], "c")
		p.waitForCounts(t, 1, 0)
		leaves.NetConn().Close()
		if closeErr := waitClose(t, stays); closeErr.Code != websocket.CloseGoingAway || closeErr.Text != want {
			t.Errorf("%s disconnected: %v", sides[0], closeErr)
		}
		p.waitForCounts(t, 0, 0)
	}
}

func TestInvalidMessageEndsRelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, size, code int
	}{
		"text":         {websocket.TextMessage, 5, websocket.CloseUnsupportedData},
		"over 1 MiB":   {websocket.BinaryMessage, ReadLimit + 1, websocket.CloseMessageTooBig},
		"within 1 MiB": {websocket.BinaryMessage, ReadLimit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPortal(t, t.Context())
			asker, answerer := p.dial(t, "asker", "c"), p.dial(t, "answerer", "c")
			go asker.WriteMessage(c.kind, make([]byte, c.size))
			got, err := receiveBytes(answerer, c.size)
			if c.code == 0 {
				if err != nil {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				return
			}
			if !websocket.IsCloseError(err, c.code) {
				t.Errorf("the answerer got %v, want %d", err, c.code)
			}
		})
	}
}

func TestSecondConnectionToWaitingSideRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	first := p.dial(t, "asker", "c")
	p.waitForCounts(t, 0, 1)
	if closeErr := waitClose(t, p.dial(t, "asker", "c")); closeErr.Code != websocket.ClosePolicyViolation {
		t.Errorf("second asker: %v", closeErr)
	}
	answerer := p.dial(t, "answerer", "c")
	if err := answerer.WriteMessage(websocket.BinaryMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := receiveBytes(first, 5); err != nil || string(got) != "hello" {
		t.Errorf("the first asker got %q, %v", got, err)
	}
}

func TestConcurrentRelaysDoNotMixData(t *testing.T) {
	t.Parallel()
	p := newPortal(t, t.Context())
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			id := fmt.Sprint("c", i)
			asker, answerer := p.dial(t, "asker", id), p.dial(t, "answerer", id)
			for range 100 {
				if err := answerer.WriteMessage(websocket.BinaryMessage, []byte(id)); err != nil {
					t.Error(err)
					return
				}
				if got, err := receiveBytes(asker, len(id)); err != nil || string(got) != id {
					t.Errorf("%s got %q, %v", id, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCancellationCauseSentToBothSides(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	p := newPortal(t, ctx)
	asker, answerer := p.dial(t, "asker", "c"), p.dial(t, "answerer", "c")
	if err := asker.WriteMessage(websocket.BinaryMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := receiveBytes(answerer, 5); err != nil || p.messages.Load() != 1 {
		t.Errorf("%v; %d messages from the asker", err, p.messages.Load())
	}
	stop(CloseReason("You are signed out."))
	for _, ws := range []*websocket.Conn{asker, answerer} {
		if closeErr := waitClose(t, ws); closeErr.Code != websocket.ClosePolicyViolation || closeErr.Text != "You are signed out." {
			t.Error(closeErr)
		}
	}
}

func TestPortalStopSentToBothSides(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	p := newPortal(t, ctx)
	asker, answerer, alone := p.dial(t, "asker", "c"), p.dial(t, "answerer", "c"), p.dial(t, "asker", "d")
	p.waitForCounts(t, 1, 1)
	stop()
	for _, ws := range []*websocket.Conn{asker, answerer, alone} {
		if closeErr := waitClose(t, ws); closeErr.Code != websocket.CloseGoingAway || closeErr.Text != "The portal is stopping." {
			t.Error(closeErr)
		}
	}
	p.waitForCounts(t, 0, 0)
}
