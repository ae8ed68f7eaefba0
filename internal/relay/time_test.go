package relay

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// pipes is a listener without a network, so that its connections follow the clock of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p pipes) dial(t *testing.T, side string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{
		Subprotocols: []string{"binary"},
		NetDialContext: func(context.Context, string, string) (net.Conn, error) {
			own, theirs := net.Pipe()
			p <- theirs
			return own, nil
		},
	}
	ws, _, err := d.Dial("ws://portal/"+side+"/c", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

// inBubble runs do with a portal whose time passes only while all goroutines wait.
func inBubble(t *testing.T, do func(t *testing.T, p *portal, listener pipes)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &portal{Broker: NewBroker(use), results: make(chan error, 8)}
		listener := make(pipes)
		server := &http.Server{Handler: p.handler(t.Context())}
		go server.Serve(listener)
		defer server.Close()
		do(t, p, listener)
	})
}

func TestRelayTimesOutWhenAnswererMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, listener pipes) {
		start := time.Now()
		closeErr := waitClose(t, listener.dial(t, "asker"))
		if closeErr.Code != websocket.CloseTryAgainLater || closeErr.Text != "Nobody answered." {
			t.Error(closeErr)
		}
		if took := time.Since(start); took != use.Wait[Requester] {
			t.Errorf("after %v", took)
		}
		if err := <-p.results; !errors.Is(err, ErrNoPeer) {
			t.Error(err)
		}
	})
}

func TestRelayTimesOutWhenRequesterMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, listener pipes) {
		start := time.Now()
		if closeErr := waitClose(t, listener.dial(t, "answerer")); closeErr.Code != websocket.CloseTryAgainLater {
			t.Error(closeErr)
		}
		if took := time.Since(start); took != use.Wait[Answerer] {
			t.Errorf("after %v", took)
		}
		if err := <-p.results; !errors.Is(err, ErrNoPeer) {
			t.Error(err)
		}
	})
}

func TestIdleRelayStaysOpenWhilePeersAnswerPings(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, listener pipes) {
		asker, answerer := listener.dial(t, "asker"), listener.dial(t, "answerer")
		pings := 0
		answerer.SetPingHandler(func(string) error {
			pings++
			return answerer.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
		})
		go func() { // answers the portal's pings
			asker.NextReader()
		}()
		got := make(chan []byte)
		go func() {
			data, _ := receiveBytes(answerer, 5)
			got <- data
		}()
		time.Sleep(time.Hour)
		if err := asker.WriteMessage(websocket.BinaryMessage, []byte("still")); err != nil {
			t.Fatal(err)
		}
		if data := <-got; string(data) != "still" || pings < 170 {
			t.Errorf("got %q after %d pings", data, pings)
		}
	})
}

func TestRelayClosedWhenPeerStopsAnsweringPings(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, listener pipes) {
		asker, answerer := listener.dial(t, "asker"), listener.dial(t, "answerer")
		answerer.SetPingHandler(func(string) error { return nil }) // receives pings but does not answer them
		go answerer.NextReader()
		start := time.Now()
		closeErr := waitClose(t, asker)
		if closeErr.Code != websocket.CloseGoingAway || closeErr.Text != "The answerer is silent." {
			t.Error(closeErr)
		}
		if took := time.Since(start); took != readTimeout {
			t.Errorf("after %v", took)
		}
		<-p.results
		<-p.results
		if open, waiting := p.Counts(Console); open+waiting != 0 {
			t.Errorf("open %d, waiting %d", open, waiting)
		}
	})
}
