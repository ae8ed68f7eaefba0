package migration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// frameType says what a frame is.
type frameType byte

// The frames of a link. A frame's head is its type, the number of its stream, and a 32-bit number: the length of what
// follows unless stated otherwise.
const (
	frameMessage frameType = iota + 1
	frameOpen              // opens the stream with the next number; the 32-bit number is the stream's kind
	frameData              // a piece of the stream
	frameEnd               // the sender sends no more data of the stream
	frameReset             // the sender cannot deliver the stream's data
	frameCredit            // the 32-bit number is how many more pieces the sender accepts
	framePing              // keeps the link alive; the other host answers it
	framePong              // the answer
)

const headBytes = 6

func putHead(head []byte, kind frameType, stream byte, n uint32) {
	head[0], head[1] = byte(kind), stream
	binary.BigEndian.PutUint32(head[2:], n)
}

// writeFrame writes a frame whose first headBytes are free for the head. One write saves a TLS record for the head.
func (l *Link) writeFrame(kind frameType, stream byte, frame []byte) error {
	putHead(frame, kind, stream, uint32(len(frame)-headBytes))
	return l.write(frame)
}

// writeNumber writes a frame without data.
func (l *Link) writeNumber(kind frameType, stream byte, n uint32) error {
	var head [headBytes]byte
	putHead(head[:], kind, stream, n)
	return l.write(head[:])
}

func (l *Link) write(frame []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.conn.Write(frame)
	return err
}

// roundTripSamples is the number of measurements; the shortest counts.
const roundTripSamples = 5

// sendPings measures the round-trip time, and then sends a frame often enough for the other host's silenceTimeout.
func (l *Link) sendPings() {
	tick := time.NewTicker(silenceTimeout / 3)
	defer tick.Stop()
	for n := 0; ; n++ {
		began := time.Now()
		_ = l.writeNumber(framePing, 0, 0) // an error ends readFrames, too
		if n < roundTripSamples {
			select {
			case <-l.ended:
				return
			case <-l.pongs:
			}
			if took := int64(time.Since(began)); n == 0 || took < l.roundTrip.Load() {
				l.roundTrip.Store(took)
			}
			continue
		}
		select {
		case <-l.ended:
			return
		case <-tick.C:
		}
	}
}

// answerPings answers the other host's pings, because readFrames never waits for the other host.
func (l *Link) answerPings() {
	for {
		select {
		case <-l.ended:
			return
		case <-l.pings:
			_ = l.writeNumber(framePong, 0, 0)
		}
	}
}

// readFrames handles the other host's frames until the connection ends. It never waits for a reader of the link, because
// the window granted for each stream and maxMessages limit what the other host may send.
func (l *Link) readFrames() {
	var head [headBytes]byte
	for l.why == nil {
		_, err := io.ReadFull(l.conn, head[:])
		if err == nil {
			err = l.handleFrame(frameType(head[0]), head[1], binary.BigEndian.Uint32(head[2:]))
		}
		l.silence.Reset(silenceTimeout)
		l.why = err
	}
	l.silence.Stop()
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.ended) // open opens no stream from now on
	close(l.messages)
	close(l.accepted)
	for _, s := range l.streams {
		s.reset()
	}
}

var errProtocol = errors.New("the other host does not follow the protocol of live migrations")

func (l *Link) handleFrame(kind frameType, number byte, n uint32) error {
	switch kind {
	case framePing:
		select {
		case l.pings <- struct{}{}:
		default: // the answer to an earlier ping has not been sent yet
		}
		return nil
	case framePong:
		select {
		case l.pongs <- struct{}{}:
		default: // of a ping that measures nothing
		}
		return nil
	case frameMessage:
		return l.readMessage(n)
	case frameOpen:
		return l.accept(number, byte(n))
	}
	l.mu.Lock()
	if int(number) >= len(l.streams) {
		l.mu.Unlock()
		return fmt.Errorf("%w: stream %d does not exist", errProtocol, number)
	}
	s := l.streams[number]
	l.mu.Unlock()
	return s.handleFrame(kind, n)
}

func (l *Link) readMessage(n uint32) error {
	if n > maxMessageBytes {
		return fmt.Errorf("%w: a message has %d bytes, more than %d", errProtocol, n, maxMessageBytes)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(l.conn, text); err != nil {
		return err
	}
	select {
	case l.messages <- text:
		return nil
	default:
		return fmt.Errorf("%w: too many messages", errProtocol)
	}
}

// open opens a stream. Streams are opened in the order of the calls.
func (l *Link) open(kind byte) (*stream, error) {
	l.opening.Lock()
	defer l.opening.Unlock()
	s, err := l.add(kind)
	if err == nil {
		err = l.writeNumber(frameOpen, s.number, uint32(kind))
	}
	return s, err
}

// accept accepts a stream that the source opens.
func (l *Link) accept(number, kind byte) error {
	if l.role != Target {
		return fmt.Errorf("%w: the target opens a stream", errProtocol)
	}
	s, err := l.add(kind)
	if err == nil && s.number != number {
		err = fmt.Errorf("%w: stream %d is opened after stream %d", errProtocol, number, s.number-1)
	}
	if err == nil {
		l.accepted <- s
	}
	return err
}

// add adds the next stream.
func (l *Link) add(kind byte) (*stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		return nil, ErrLost
	default:
	}
	if len(l.streams) == maxStreams {
		return nil, fmt.Errorf("a link has at most %d streams", maxStreams)
	}
	s := newStream(l, byte(len(l.streams)), kind)
	l.streams = append(l.streams, s)
	return s, nil
}
