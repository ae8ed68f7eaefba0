package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	pingEvery    = 20 * time.Second
	readTimeout  = 45 * time.Second // a side counts as lost after so long without data or pong
	writeTimeout = 30 * time.Second // for one chunk
	pingTimeout  = 15 * time.Second // for sending a ping
	closeTimeout = time.Second      // for closing; data that was not sent by then is lost
	chunkSize    = 32 << 10
)

// chunks are buffers that a session uses only while data is in flight, so an idle session needs none. Two calls of
// io.Copy over websocket streams would need a buffer for each direction and would lose the close code and reason.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// session is a relay with both sides connected. Each side's goroutine copies from that side to the other one, so a
// session has two goroutines and one timer.
type session struct {
	config  *KindConfig
	peers   [2]peer
	pings   *time.Timer
	once    sync.Once
	ended   atomic.Bool
	running atomic.Int32
	done    chan struct{} // closed when the session ends
}

func newSession(use *KindConfig, s Side, own, other peer) *session {
	p := &session{config: use, done: make(chan struct{})}
	p.peers[s], p.peers[1-s] = own, other
	p.running.Store(2)
	if p.hasPortalSide() {
		return p
	}
	for _, l := range p.peers {
		ws := l.ws
		ws.SetReadLimit(ReadLimit)
		// closeBothSides sends the close frame later, after the other side has received all bytes.
		ws.SetCloseHandler(func(int, string) error { return nil })
		ws.SetPongHandler(func(string) error { p.extendReadDeadline(ws); return nil })
	}
	p.pings = time.AfterFunc(time.Hour, p.ping)
	p.pings.Reset(pingEvery)
	return p
}

// detachSide removes the caller's side from the session, and reports whether it was the last side.
func (p *session) detachSide() bool { return p.running.Add(-1) == 0 }

// copyFromSide copies from side s to the other side until either side ends, and then ends both.
func (p *session) copyFromSide(s Side) {
	if p.hasPortalSide() {
		<-p.done // the caller of Hold reads from the connection itself
		return
	}
	from, to := p.peers[s], p.peers[1-s]
	for {
		// The timeout runs only while this side is read, not while a write to the other side is slow.
		p.extendReadDeadline(from.ws)
		kind, message, err := from.ws.NextReader()
		if err == nil && kind != websocket.BinaryMessage {
			p.closeBothSides(websocket.CloseUnsupportedData, p.config.NotBinary)
			return
		}
		var sent error
		if err == nil {
			from.tap.onMessage()
			err, sent = forwardMessage(from, to, message, p.config.Limit)
		}
		switch {
		case sent != nil:
			code, text := p.closeReasonOf(sent, 1-s)
			p.closeBothSides(code, text)
			return
		case err != nil:
			code, text := p.closeReasonOf(err, s)
			p.closeBothSides(code, text)
			return
		}
	}
}

// forwardMessage forwards a message in chunks, each as a separate message. A relay is a byte stream, so no side has to
// wait for the end of a large message.
func forwardMessage(from, to peer, message io.Reader, pace func(int)) (read, sent error) {
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	for {
		n, err := io.ReadFull(message, chunk[:])
		if n > 0 {
			if pace != nil {
				pace(n)
			}
			send, refused := from.tap.send(chunk[:n])
			if refused != nil {
				return refused, nil
			}
			if len(send) > 0 {
				to.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
				if sent := to.ws.WriteMessage(websocket.BinaryMessage, send); sent != nil {
					return nil, sent
				}
				to.tap.got(len(send))
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF: // end of the message; for the end of the connection the error would be a CloseError
			return nil, nil
		default:
			return err, nil
		}
	}
}

// extendReadDeadline gives a side the full read timeout, or a short one while the session ends.
func (p *session) extendReadDeadline(ws *websocket.Conn) {
	ws.SetReadDeadline(time.Now().Add(readTimeout))
	if p.ended.Load() {
		ws.SetReadDeadline(time.Now().Add(closeTimeout))
	}
}

// ping sends pings to both sides, so that proxies do not close an idle session and lost sides are detected.
func (p *session) ping() {
	until := time.Now().Add(pingTimeout)
	for _, l := range p.peers {
		// A failed ping also fails the reads of this side.
		_ = l.ws.WriteControl(websocket.PingMessage, nil, until)
	}
	p.pings.Reset(pingEvery)
	if p.ended.Load() {
		p.pings.Stop()
	}
}

// closeBothSides sends both sides the reason and closes both within closeTimeout.
func (p *session) closeBothSides(code int, text string) {
	p.once.Do(func() {
		p.ended.Store(true)
		defer close(p.done)
		if p.pings != nil {
			p.pings.Stop()
		}
		until := time.Now().Add(closeTimeout)
		for _, l := range p.peers {
			if l.ws != nil {
				l.ws.NetConn().SetDeadline(until)
			}
		}
		for _, l := range p.peers {
			if l.ws != nil {
				sendClose(l.ws, code, text)
			}
		}
	})
}

// closeReasonOf returns the close code and reason for err on side s. If the side sent a close frame, they are from that
// frame.
func (p *session) closeReasonOf(err error, s Side) (int, string) {
	var closeErr *websocket.CloseError
	var network net.Error
	reason, refused := errors.AsType[CloseReason](err)
	switch {
	case refused:
		return websocket.ClosePolicyViolation, string(reason)
	case errors.As(err, &closeErr) && closeErr.Code != websocket.CloseNoStatusReceived && closeErr.Code != websocket.CloseAbnormalClosure:
		return closeErr.Code, closeErr.Text
	case errors.As(err, &closeErr) && closeErr.Code == websocket.CloseNoStatusReceived:
		return websocket.CloseNormalClosure, ""
	case errors.Is(err, websocket.ErrReadLimit):
		return websocket.CloseMessageTooBig, "A message was larger than 1 MiB."
	case errors.As(err, &network) && network.Timeout():
		return websocket.CloseGoingAway, p.config.Unreachable[s]
	}
	return websocket.CloseGoingAway, p.config.Disconnected[s]
}

// sendClose sends a close frame, possibly to a side that has disconnected. The text of a close frame has at most 123
// bytes; longer text is cut.
func sendClose(ws *websocket.Conn, code int, text string) {
	for len(text) > 123 {
		cut := 123
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut]
	}
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(closeTimeout))
}
