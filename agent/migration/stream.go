package migration

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A stream's window is the number of pieces that its sender may be ahead of the receiving program. The smallest window
// keeps the pieces in the processor's cache, which saves a third of the processor time of the largest window. A distant
// host needs more: as much as windowRate sends within the round-trip time.
const (
	maxPieceBytes = 64 << 10
	minWindow     = 8
	maxWindow     = 256           // limits a stream's memory to 16 MiB
	creditPieces  = minWindow / 4 // delivered pieces per frame of credit
	windowRate    = 10e9 / 8      // bytes per second
)

// windowFor returns the window for a round-trip time.
func windowFor(roundTrip time.Duration) int {
	return max(minWindow, min(maxWindow, int(roundTrip.Seconds()*windowRate/maxPieceBytes)))
}

// piece is a frame of data.
type piece struct {
	frame [headBytes + maxPieceBytes]byte
	n     int // length of the data
}

func (p *piece) data() []byte { return p.frame[headBytes : headBytes+p.n] }

var freePieces = sync.Pool{New: func() any { return new(piece) }}

// stream is a connection between a program of each host.
type stream struct {
	link   *Link
	number byte
	kind   byte
	credit chan struct{} // an entry for each piece that may be sent
	in     chan *piece   // received pieces; closed after the last one
	failed chan struct{} // closed when the other host cannot deliver, and when the link has ended

	granted atomic.Int64 // pieces that the other host may still send

	// of readFrames
	inEnded, hasFailed bool
}

func newStream(l *Link, number, kind byte) *stream {
	s := &stream{
		link: l, number: number, kind: kind,
		credit: make(chan struct{}, maxWindow), in: make(chan *piece, maxWindow), failed: make(chan struct{}),
	}
	s.granted.Store(minWindow)
	for range minWindow {
		s.credit <- struct{}{}
	}
	return s
}

func (s *stream) handleFrame(kind frameType, n uint32) error {
	switch kind {
	case frameData:
		return s.readPiece(n)
	case frameEnd:
		s.end()
	case frameReset:
		s.reset()
	case frameCredit:
		for range min(n, maxWindow) {
			select {
			case s.credit <- struct{}{}:
			default:
				return fmt.Errorf("%w: a stream's credit exceeds its window", errProtocol)
			}
		}
	default:
		return fmt.Errorf("%w: frame of the unknown type %d", errProtocol, kind)
	}
	return nil
}

func (s *stream) readPiece(n uint32) error {
	if n == 0 || n > maxPieceBytes || s.inEnded {
		return fmt.Errorf("%w: unexpected piece of %d bytes", errProtocol, n)
	}
	if s.granted.Add(-1) < 0 {
		return fmt.Errorf("%w: a stream's data exceeds its window", errProtocol)
	}
	p := freePieces.Get().(*piece)
	p.n = int(n)
	if _, err := io.ReadFull(s.link.conn, p.data()); err != nil {
		return err
	}
	s.in <- p // has room for the largest window
	return nil
}

func (s *stream) end() {
	if !s.inEnded {
		s.inEnded = true
		close(s.in)
	}
}

func (s *stream) reset() {
	s.end()
	if !s.hasFailed {
		s.hasFailed = true
		close(s.failed)
	}
}

// refuse ends an accepted stream.
func (s *stream) refuse() { _ = s.link.writeNumber(frameReset, s.number, 0) }

// splice forwards both directions, and closes local when both have ended or one cannot continue.
func (s *stream) splice(local net.Conn) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var both sync.WaitGroup
		both.Go(func() { s.sendFrom(local) })
		both.Go(func() { s.receiveTo(local) })
		both.Wait()
	}()
	select {
	case <-ended:
	case <-s.failed:
	}
	_ = local.Close()
	<-ended
}

// sendFrom sends what it reads from local until local's end.
func (s *stream) sendFrom(local net.Conn) {
	p := freePieces.Get().(*piece)
	defer freePieces.Put(p)
	for {
		select {
		case <-s.credit:
		case <-s.failed:
			return
		}
		n, err := local.Read(p.frame[headBytes:])
		if n > 0 && s.link.writeFrame(frameData, s.number, p.frame[:headBytes+n]) != nil {
			return
		}
		if err != nil {
			_ = s.link.writeNumber(frameEnd, s.number, 0)
			return
		}
	}
}

// receiveTo writes the received pieces to local.
func (s *stream) receiveTo(local net.Conn) {
	defer func() {
		for p := range s.in { // only after a failure
			freePieces.Put(p)
		}
	}()
	delivered, window := 0, minWindow
	for p := range s.in {
		_, err := local.Write(p.data())
		freePieces.Put(p)
		if delivered++; err == nil && delivered%creditPieces == 0 {
			wider := max(window, windowFor(time.Duration(s.link.roundTrip.Load())))
			more := creditPieces + wider - window
			s.granted.Add(int64(more))
			err = s.link.writeNumber(frameCredit, s.number, uint32(more))
			window = wider
		}
		if err != nil {
			s.refuse()
			return
		}
	}
	if half, ok := local.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
