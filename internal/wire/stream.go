package wire

import (
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Keepalive of an agent's end of a relay, and the limits after which the relay counts as lost.
const (
	pingEvery  = 20 * time.Second
	readLimit  = 3 * pingEvery    // longest time without data or pong from the portal
	writeLimit = 30 * time.Second // longest write to a portal that does not read
)

// Stream is the byte stream in a websocket's binary messages. It is not a net.Conn, because it sets its own deadlines.
// It sends pings. A read fails after too long without data or pong, and a write fails if the portal does not read in
// time. The caller must close the Stream.
type Stream struct {
	ws     *websocket.Conn
	in     io.Reader
	pings  *time.Timer
	closed sync.Once

	readTimeout, writeTimeout time.Duration
}

// NewStream wraps a dialled websocket. The Stream then owns the websocket.
func NewStream(ws *websocket.Conn) *Stream { return newStream(ws, readLimit, writeLimit) }

// NewSlowReaderStream is NewStream for a receiver that may pause its reads for up to patience. A receiver answers no pings
// during the pause, so the read timeout grows by patience, too.
func NewSlowReaderStream(ws *websocket.Conn, patience time.Duration) *Stream {
	return newStream(ws, patience+readLimit, patience)
}

func newStream(ws *websocket.Conn, readTimeout, writeTimeout time.Duration) *Stream {
	s := &Stream{ws: ws, in: websocket.JoinMessages(ws, ""), readTimeout: readTimeout, writeTimeout: writeTimeout}
	ws.SetPongHandler(func(string) error { return s.extendReadDeadline() })
	_ = s.extendReadDeadline() // if the deadline cannot be set, the first read returns the reason
	s.pings = time.AfterFunc(time.Hour, s.ping)
	s.pings.Reset(pingEvery)
	return s
}

func (s *Stream) extendReadDeadline() error {
	return s.ws.SetReadDeadline(time.Now().Add(s.readTimeout))
}

// ping detects a lost portal while neither side sends data.
func (s *Stream) ping() {
	if s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeLimit)) != nil {
		s.ws.Close() // a pending read returns the error
		return
	}
	s.pings.Reset(pingEvery)
}

// Read returns io.EOF only after the other side has closed the relay normally.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		err = io.EOF
	}
	return n, err
}

func (s *Stream) Write(p []byte) (int, error) {
	s.ws.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the relay normally, so that the other side reads io.EOF.
func (s *Stream) Close() error { return s.closeWithCode(websocket.CloseNormalClosure, "") }

// Fail ends the relay with an error and sends the reason to the other side.
func (s *Stream) Fail(why string) { _ = s.closeWithCode(websocket.CloseInternalServerErr, why) }

func (s *Stream) closeWithCode(code int, why string) (err error) {
	s.closed.Do(func() {
		s.pings.Stop()
		// Best effort: the other side may have disconnected.
		_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(time.Second))
		err = s.ws.Close()
	})
	return err
}
