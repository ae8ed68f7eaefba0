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
	pingEvery  = 20 * time.Second
	pongLimit  = 45 * time.Second // silence after which a side counts as gone
	writeLimit = 30 * time.Second // for one chunk
	pingLimit  = 15 * time.Second // for a ping to get into the line
	farewell   = time.Second      // for closing: what is not out by then is lost
	chunkSize  = 32 << 10
)

// chunks are held only while bytes are on their way: a quiet pair has none. Two io.Copy over the websockets as streams would
// keep a buffer a direction, and end without the other side's code and words.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// session is a pair that has met. Each side's own goroutine carries what that side says to the other one, so a session has
// two goroutines and one timer.
type session struct {
	use     *Use
	lines   [2]line
	pings   *time.Timer
	once    sync.Once
	ended   atomic.Bool
	running atomic.Int32
	over    chan struct{} // closed with the end
}

func newSession(use *Use, s Side, mine, other line) *session {
	p := &session{use: use, over: make(chan struct{})}
	p.lines[s], p.lines[1-s] = mine, other
	p.running.Store(2)
	if p.held() {
		return p
	}
	for _, l := range p.lines {
		ws := l.ws
		ws.SetReadLimit(ReadLimit)
		ws.SetCloseHandler(func(int, string) error { return nil }) // end answers, once the other side has got all bytes
		ws.SetPongHandler(func(string) error { p.listen(ws); return nil })
	}
	p.pings = time.AfterFunc(time.Hour, p.ping)
	p.pings.Reset(pingEvery)
	return p
}

// left reports whether the caller was the last of the two sides.
func (p *session) left() bool { return p.running.Add(-1) == 0 }

// run carries what side s says to the other one until either of them ends; then it ends both.
func (p *session) run(s Side) {
	if p.held() {
		<-p.over // whoever holds the connection reads from it
		return
	}
	from, to, said := p.lines[s].ws, p.lines[1-s].ws, p.lines[s].said
	for {
		// Silence counts only while this side is listened to, not while the other one is slow to take what it said.
		p.listen(from)
		kind, message, err := from.NextReader()
		if err == nil && kind != websocket.BinaryMessage {
			p.end(websocket.CloseUnsupportedData, p.use.Stray)
			return
		}
		var sent error
		if err == nil {
			said()
			err, sent = carry(to, message, p.use.Pace)
		}
		switch {
		case sent != nil:
			code, text := p.reasonOf(sent, 1-s)
			p.end(code, text)
			return
		case err != nil:
			code, text := p.reasonOf(err, s)
			p.end(code, text)
			return
		}
	}
}

// carry sends a message on in chunks, each a message of its own as soon as it is read: a pair is a stream of bytes,
// and nobody waits for the end of a large message.
func carry(to *websocket.Conn, message io.Reader, pace func(int)) (read, sent error) {
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	for {
		n, err := io.ReadFull(message, chunk[:])
		if n > 0 {
			if pace != nil {
				pace(n)
			}
			to.SetWriteDeadline(time.Now().Add(writeLimit))
			if sent := to.WriteMessage(websocket.BinaryMessage, chunk[:n]); sent != nil {
				return nil, sent
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF: // the message's end; that of the connection is a CloseError
			return nil, nil
		default:
			return err, nil
		}
	}
}

// listen gives a side time to say something, or little of it where the pair is ending.
func (p *session) listen(ws *websocket.Conn) {
	ws.SetReadDeadline(time.Now().Add(pongLimit))
	if p.ended.Load() {
		ws.SetReadDeadline(time.Now().Add(farewell))
	}
}

// ping keeps proxies from closing a quiet pair, and finds sides that are gone.
func (p *session) ping() {
	until := time.Now().Add(pingLimit)
	for _, l := range p.lines {
		// A side that takes no ping is noticed by its reader.
		_ = l.ws.WriteControl(websocket.PingMessage, nil, until)
	}
	p.pings.Reset(pingEvery)
	if p.ended.Load() {
		p.pings.Stop()
	}
}

// end tells both sides why the pair ends, and lets neither keep the other for longer than a farewell.
func (p *session) end(code int, text string) {
	p.once.Do(func() {
		p.ended.Store(true)
		defer close(p.over)
		if p.pings != nil {
			p.pings.Stop()
		}
		until := time.Now().Add(farewell)
		for _, l := range p.lines {
			if l.ws != nil {
				l.ws.NetConn().SetDeadline(until)
			}
		}
		for _, l := range p.lines {
			if l.ws != nil {
				sayClose(l.ws, code, text)
			}
		}
	})
}

// reasonOf is what the sides are told after err while s was listened to: its own code and words where it gave any.
func (p *session) reasonOf(err error, s Side) (int, string) {
	var said *websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &said) && said.Code != websocket.CloseNoStatusReceived && said.Code != websocket.CloseAbnormalClosure:
		return said.Code, said.Text
	case errors.As(err, &said) && said.Code == websocket.CloseNoStatusReceived:
		return websocket.CloseNormalClosure, ""
	case errors.Is(err, websocket.ErrReadLimit):
		return websocket.CloseMessageTooBig, "A message was larger than 1 MiB."
	case errors.As(err, &network) && network.Timeout():
		return websocket.CloseGoingAway, p.use.Unreachable[s]
	}
	return websocket.CloseGoingAway, p.use.Left[s]
}

// sayClose sends a close frame to a side that may have gone; its text is cut to the 123 bytes that one holds.
func sayClose(ws *websocket.Conn, code int, text string) {
	for len(text) > 123 {
		cut := 123
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut]
	}
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(farewell))
}
