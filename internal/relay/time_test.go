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

// pipes is a listener without a network, so that a synctest bubble's clock rules the connections.
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
			mine, theirs := net.Pipe()
			p <- theirs
			return mine, nil
		},
	}
	ws, _, err := d.Dial("ws://portal/"+side+"/c", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

// inBubble runs do with a portal whose time passes only while all wait.
func inBubble(t *testing.T, do func(t *testing.T, p *portal, line pipes)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &portal{Broker: New(use), results: make(chan error, 8)}
		line := make(pipes)
		server := &http.Server{Handler: p.handler(t.Context())}
		go server.Serve(line)
		defer server.Close()
		do(t, p, line)
	})
}

func TestAnAnswererThatDoesNotComeIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, line pipes) {
		start := time.Now()
		said := closing(t, line.dial(t, "asker"))
		if said.Code != websocket.CloseTryAgainLater || said.Text != "Nobody answered." {
			t.Error(said)
		}
		if took := time.Since(start); took != use.Wait[Asker] {
			t.Errorf("after %v", took)
		}
		if err := <-p.results; !errors.Is(err, ErrAlone) {
			t.Error(err)
		}
	})
}

func TestAnAskerThatDoesNotComeIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, line pipes) {
		start := time.Now()
		if said := closing(t, line.dial(t, "answerer")); said.Code != websocket.CloseTryAgainLater {
			t.Error(said)
		}
		if took := time.Since(start); took != use.Wait[Answerer] {
			t.Errorf("after %v", took)
		}
		if err := <-p.results; !errors.Is(err, ErrAlone) {
			t.Error(err)
		}
	})
}

func TestAQuietPairStaysOpenWhileBothAnswerPings(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, line pipes) {
		asker, answerer := line.dial(t, "asker"), line.dial(t, "answerer")
		pings := 0
		answerer.SetPingHandler(func(string) error {
			pings++
			return answerer.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
		})
		go func() { // answers pings
			asker.NextReader()
		}()
		got := make(chan []byte)
		go func() {
			data, _ := receive(answerer, 5)
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

func TestASideThatNoLongerAnswersEndsThePair(t *testing.T) {
	inBubble(t, func(t *testing.T, p *portal, line pipes) {
		asker, answerer := line.dial(t, "asker"), line.dial(t, "answerer")
		answerer.SetPingHandler(func(string) error { return nil }) // takes pings, answers none
		go answerer.NextReader()
		start := time.Now()
		said := closing(t, asker)
		if said.Code != websocket.CloseGoingAway || said.Text != "The answerer is silent." {
			t.Error(said)
		}
		if took := time.Since(start); took != pongLimit {
			t.Errorf("after %v", took)
		}
		<-p.results
		<-p.results
		if open, waiting := p.Counts(Console); open+waiting != 0 {
			t.Errorf("open %d, waiting %d", open, waiting)
		}
	})
}
