package wire

import (
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// How an agent's end of a pair is kept alive, and noticed to be dead.
const (
	pingEvery  = 20 * time.Second
	pongLimit  = 3 * pingEvery    // longest silence of the portal
	writeLimit = 30 * time.Second // longest wait for a portal that does not read
)

// Stream is a websocket as the stream of bytes that its binary messages are. It is no net.Conn, for its deadlines are its own: it
// pings, a read fails when the portal has been silent for too long, and a write when it is not taken in time. It must be closed.
type Stream struct {
	ws     *websocket.Conn
	in     io.Reader
	pings  *time.Timer
	closed sync.Once

	quiet, slow time.Duration // longest silence, and longest wait for one who does not read
}

// NewStream takes a dialled websocket over.
func NewStream(ws *websocket.Conn) *Stream { return newStream(ws, pongLimit, writeLimit) }

// NewPatientStream is NewStream for bytes that whoever takes them may leave for so long: until then, the other side is not heard either.
func NewPatientStream(ws *websocket.Conn, patience time.Duration) *Stream {
	return newStream(ws, patience+pongLimit, patience)
}

func newStream(ws *websocket.Conn, quiet, slow time.Duration) *Stream {
	s := &Stream{ws: ws, in: websocket.JoinMessages(ws, ""), quiet: quiet, slow: slow}
	ws.SetPongHandler(func(string) error { return s.heard() })
	_ = s.heard() // where it cannot be set, the first read says why
	s.pings = time.AfterFunc(time.Hour, s.ping)
	s.pings.Reset(pingEvery)
	return s
}

func (s *Stream) heard() error { return s.ws.SetReadDeadline(time.Now().Add(s.quiet)) }

// ping finds a portal that is gone while both sides are quiet.
func (s *Stream) ping() {
	if s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeLimit)) != nil {
		s.ws.Close() // a reader hears of it
		return
	}
	s.pings.Reset(pingEvery)
}

// Read returns io.EOF only where the other side has ended the pair as a matter of course.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		err = io.EOF
	}
	return n, err
}

func (s *Stream) Write(p []byte) (int, error) {
	s.ws.SetWriteDeadline(time.Now().Add(s.slow))
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the pair as a matter of course.
func (s *Stream) Close() error { return s.end(websocket.CloseNormalClosure, "") }

// Fail ends the pair and tells the other side why.
func (s *Stream) Fail(why string) { _ = s.end(websocket.CloseInternalServerErr, why) }

func (s *Stream) end(code int, why string) (err error) {
	s.closed.Do(func() {
		s.pings.Stop()
		// As far as the other side still listens.
		_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(time.Second))
		err = s.ws.Close()
	})
	return err
}
