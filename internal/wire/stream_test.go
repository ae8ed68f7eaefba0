package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/wire"
)

// withStream connects a Stream to the portal's end of its websocket, in a synctest bubble. There, time passes only
// while all goroutines wait.
func withStream(t *testing.T, do func(t *testing.T, s *wire.Stream, portal *websocket.Conn)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		portal := make(chan *websocket.Conn)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			up := websocket.Upgrader{}
			ws, err := up.Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
			}
			portal <- ws
		})}
		l := &singleConnListener{conns: make(chan net.Conn, 1)}
		l.conns <- theirs
		go server.Serve(l)
		defer server.Close()
		d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return mine, nil }}
		dialled := make(chan *websocket.Conn)
		go func() {
			ws, _, err := d.Dial("ws://portal/", nil)
			if err != nil {
				t.Error(err)
			}
			dialled <- ws
		}()
		peer := <-portal
		defer peer.Close()
		s := wire.NewStream(<-dialled)
		defer s.Close()
		do(t, s, peer)
	})
}

type singleConnListener struct{ conns chan net.Conn }

func (l *singleConnListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *singleConnListener) Close() error   { close(l.conns); return nil }
func (l *singleConnListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestStreamJoinsWebsocketMessages(t *testing.T) {
	withStream(t, func(t *testing.T, s *wire.Stream, portal *websocket.Conn) {
		go func() {
			for _, piece := range []string{"RFB ", "", "003.008", "\n"} {
				portal.WriteMessage(websocket.BinaryMessage, []byte(piece))
			}
			portal.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		}()
		if got, err := io.ReadAll(s); err != nil || string(got) != "RFB 003.008\n" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestInterruptedStreamIsNotEOF(t *testing.T) {
	withStream(t, func(t *testing.T, s *wire.Stream, portal *websocket.Conn) {
		go func() {
			portal.WriteMessage(websocket.BinaryMessage, []byte("half"))
			portal.Close()
		}()
		if got, err := io.ReadAll(s); err == nil || string(got) != "half" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestStreamFailSendsReason(t *testing.T) {
	withStream(t, func(t *testing.T, s *wire.Stream, portal *websocket.Conn) {
		go func() {
			s.Write([]byte("bytes"))
			s.Fail("The VM's screen cannot be reached.")
		}()
		_, got, err := portal.ReadMessage()
		if err != nil || !bytes.Equal(got, []byte("bytes")) {
			t.Errorf("read %q, %v", got, err)
		}
		var closeErr *websocket.CloseError
		if _, _, err := portal.ReadMessage(); !errors.As(err, &closeErr) || closeErr.Code != websocket.CloseInternalServerErr || closeErr.Text != "The VM's screen cannot be reached." {
			t.Error(err)
		}
	})
}

func TestIdleStreamStaysOpenWhilePortalAnswers(t *testing.T) {
	withStream(t, func(t *testing.T, s *wire.Stream, portal *websocket.Conn) {
		var silent atomic.Bool
		portal.SetPingHandler(func(string) error {
			if silent.Load() {
				return nil
			}
			return portal.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
		})
		go portal.NextReader()
		ended := make(chan error)
		go func() {
			_, err := s.Read(make([]byte, 1))
			ended <- err
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("stream closed although the portal answers: %v", err)
		default:
		}
		silent.Store(true)
		since := time.Now()
		if err := <-ended; err == nil || time.Since(since) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(since))
		}
	})
}

func TestStreamWriteTimesOutWhenPortalDoesNotRead(t *testing.T) {
	withStream(t, func(t *testing.T, s *wire.Stream, portal *websocket.Conn) {
		start := time.Now()
		if _, err := s.Write([]byte("bytes")); err == nil || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
