package transfer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"quantix/internal/fleet"
)

// A transfer is one file. The sender sends the file's size, then pieces of data in order, each with its offset and
// length, and at the end a piece of length zero. Bytes between pieces are holes. The receiver answers once. TLS
// protects the data, so only the receiver computes the sum.
const (
	ticketAccepted = 0x51 // the ticket was accepted

	answerComplete      = 0 // answer: the file is complete and correct
	answerFailed        = 1 // answer: the transfer failed; an error text follows
	answerStillChecking = 2 // answer: the receiver is still checking

	pieceHeadBytes = 12
	maxErrorBytes  = 1000
	silenceTimeout = 90 * time.Second // longest time without a byte

	drainTimeout = 3 * time.Second // time for a sender to read the refusal
)

// ErrConnectionLost is wrapped by the error of a transfer whose connection was lost. Such a transfer may be retried.
var ErrConnectionLost = errors.New("the connection to the other host was lost")

// Pieces delivers a file's bytes in order to do: blocks of data of at most 1 MiB, and a nil block for a hole of n
// bytes.
type Pieces func(ctx context.Context, do func(at int64, block []byte, n int64) error) error

// FilePieces returns the pieces of a file.
func FilePieces(f *os.File, size int64) Pieces {
	return func(ctx context.Context, do func(at int64, block []byte, n int64) error) error {
		return eachExtent(ctx, f, size, do)
	}
}

// Sink is the target of a file.
type Sink interface {
	io.WriterAt
	// Writeback starts to write n bytes to the storage, and does not wait.
	Writeback(at, n int64)
	Truncate(size int64) error
	Sync() error
}

// FileSink is a Sink that writes to a file.
type FileSink struct{ *os.File }

// Writeback implements Sink.
func (f FileSink) Writeback(at, n int64) { writeback(f.File, at, n) }

// MemorySink is a Sink of at most Max bytes in memory.
type MemorySink struct {
	Max  int64
	Data []byte
}

// WriteAt implements Sink.
func (s *MemorySink) WriteAt(p []byte, at int64) (int, error) {
	if end := at + int64(len(p)); end > int64(len(s.Data)) {
		if err := s.Truncate(end); err != nil {
			return 0, err
		}
	}
	return copy(s.Data[at:], p), nil
}

// Truncate implements Sink.
func (s *MemorySink) Truncate(size int64) error {
	if size < 0 || size > s.Max {
		return fmt.Errorf("the other host sends %d bytes, more than %d", size, s.Max)
	}
	s.Data = append(s.Data, make([]byte, max(0, size-int64(len(s.Data))))...)[:size]
	return nil
}

// Writeback implements Sink.
func (s *MemorySink) Writeback(int64, int64) {}

// Sync implements Sink.
func (s *MemorySink) Sync() error { return nil }

// SendingConn is a connection that sends one file.
type SendingConn struct{ conn net.Conn }

// Close ends the connection.
func (o *SendingConn) Close() { o.conn.Close() }

// Stream returns the connection for use in both directions, instead of Send.
func (o *SendingConn) Stream() net.Conn { return coalescingConn{o.conn} }

// Send sends the file and waits until the receiver confirms that the file is complete.
func (o *SendingConn) Send(ctx context.Context, pieces Pieces, size int64, rate *RateLimit, meter *Meter) error {
	answers := make(chan error, 1)
	go func() { answers <- o.answer() }()
	stop := context.AfterFunc(ctx, o.Close)
	err := o.send(ctx, answers, pieces, size, rate, meter)
	stop()
	o.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// send reads the receiver's answer in parallel, because a receiver that refuses the file answers early and stops
// reading.
func (o *SendingConn) send(ctx context.Context, answers <-chan error, pieces Pieces, size int64, rate *RateLimit, meter *Meter) error {
	var head [pieceHeadBytes]byte
	var refused error
	binary.BigEndian.PutUint64(head[:8], uint64(size))
	err := o.write(head[:8])
	if err == nil {
		err = pieces(ctx, func(at int64, block []byte, n int64) error {
			select {
			case answer := <-answers:
				refused = cmp.Or(answer, errEarlyConfirmation)
				return refused
			default:
			}
			meter.Add(n)
			if block == nil {
				return nil
			}
			if err := rate.Wait(ctx, len(block)); err != nil {
				return err
			}
			binary.BigEndian.PutUint64(head[:8], uint64(at))
			binary.BigEndian.PutUint32(head[8:], uint32(len(block)))
			return coalesceWrites(o.conn, func() error { return cmp.Or(o.write(head[:]), o.write(block)) })
		})
	}
	if err == nil {
		binary.BigEndian.PutUint64(head[:8], uint64(size))
		binary.BigEndian.PutUint32(head[8:], 0)
		err = o.write(head[:])
	}
	switch {
	case refused != nil:
		return refused
	case err == nil:
		_ = o.conn.SetReadDeadline(time.Now().Add(silenceTimeout))
		return <-answers
	case !errors.Is(err, ErrConnectionLost):
		return err
	}
	// Prefer the receiver's answer, if it sent one before it closed the connection.
	_ = o.conn.SetReadDeadline(time.Now().Add(time.Second))
	if answer := <-answers; answer != nil && !errors.Is(answer, ErrConnectionLost) {
		return answer
	}
	return err
}

// errEarlyConfirmation is the error of a receiver that confirms a file before the file was sent completely.
var errEarlyConfirmation = errors.New("the other host answers before it has received the whole file")

func (o *SendingConn) write(p []byte) error {
	_ = o.conn.SetWriteDeadline(time.Now().Add(silenceTimeout))
	if _, err := o.conn.Write(p); err != nil {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return nil
}

// answer reads the receiver's answer.
func (o *SendingConn) answer() error {
	var head [3]byte
	for {
		if _, err := io.ReadFull(o.conn, head[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrConnectionLost, err)
		}
		words := make([]byte, min(int(binary.BigEndian.Uint16(head[1:])), maxErrorBytes))
		if _, err := io.ReadFull(o.conn, words); err != nil {
			return fmt.Errorf("%w: %w", ErrConnectionLost, err)
		}
		switch head[0] {
		case answerComplete:
			return nil
		case answerFailed:
			return fmt.Errorf("the other host reports: %s", words)
		}
		_ = o.conn.SetReadDeadline(time.Now().Add(silenceTimeout))
	}
}

// ReceivingConn is a connection that receives one file.
type ReceivingConn struct{ conn net.Conn }

// Close ends the connection.
func (in *ReceivingConn) Close() { in.conn.Close() }

// Stream returns the connection for use in both directions, instead of Receive.
func (in *ReceivingConn) Stream() net.Conn { return coalescingConn{in.conn} }

// MaxAnnouncedBytes limits the announced size of a file: twice the largest disk, because of the format's metadata.
// Holes take no space, but are hashed, too.
const MaxAnnouncedBytes = 2 * fleet.MaxDiskBytes

// Size returns the announced size of the file in bytes. It must be called once, before Receive.
func (in *ReceivingConn) Size() (int64, error) {
	var head [8]byte
	if err := in.read(head[:]); err != nil {
		return 0, err
	}
	size := int64(binary.BigEndian.Uint64(head[:]))
	if size < 0 || size > MaxAnnouncedBytes {
		return 0, errors.New("the file announced by the other host is longer than any file may be")
	}
	return size, nil
}

func (in *ReceivingConn) read(p []byte) error {
	_ = in.conn.SetReadDeadline(time.Now().Add(silenceTimeout))
	if _, err := io.ReadFull(in.conn, p); err != nil {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return nil
}

// Receive writes the received file of that size into dst, which must be empty. It returns the sum of the bytes, holes
// as zeros. room limits the received data in bytes. When Receive returns, the data is synced to the storage.
func (in *ReceivingConn) Receive(ctx context.Context, dst Sink, size, room int64, meter *Meter) (FileSum, error) {
	stop := context.AfterFunc(ctx, in.Close)
	sum, err := in.receive(ctx, dst, size, room, meter)
	if !stop() {
		err = context.Cause(ctx)
	}
	return sum, err
}

func (in *ReceivingConn) receive(ctx context.Context, dst Sink, size, room int64, meter *Meter) (FileSum, error) {
	p := newPipeline(ctx, dst)
	defer p.abandon()
	var head [pieceHeadBytes]byte
	for next := int64(0); ; {
		if err := in.read(head[:]); err != nil {
			return FileSum{}, err
		}
		at, n := int64(binary.BigEndian.Uint64(head[:8])), int64(binary.BigEndian.Uint32(head[8:]))
		switch {
		case at < next || at > size || n > blockBytes || at+n > size || n == 0 && at != size:
			return FileSum{}, errors.New("the other host sends invalid data")
		case room < n:
			return FileSum{}, errors.New("the received data exceeds the free space")
		}
		room -= n
		if at > next {
			meter.Add(at - next)
		}
		block, err := p.takeBuffer(n)
		if err != nil {
			return FileSum{}, err
		}
		if err := in.read(block); err != nil {
			return FileSum{}, err
		}
		p.enqueue(filePiece{block, at, at - next})
		if next = at + n; n == 0 {
			break
		}
		meter.Add(n)
	}
	sum, err := p.finish()
	if err == nil {
		err = dst.Truncate(size)
	}
	if err == nil {
		err = dst.Sync()
	}
	return sum, err
}

// SendStillChecking notifies the sender that the file is still being checked.
func (in *ReceivingConn) SendStillChecking() { _ = in.reply(answerStillChecking, "") }

// Answer sends the result to the sender and closes the connection.
func (in *ReceivingConn) Answer(err error) {
	defer in.Close()
	if err == nil {
		_ = in.reply(answerComplete, "")
		return
	}
	if in.reply(answerFailed, err.Error()) == nil {
		in.drainUntilClosed()
	}
}

// drainUntilClosed reads until the sender has received the answer and closed the connection. Closing a connection with
// unread bytes would reset it, and the answer would be lost.
func (in *ReceivingConn) drainUntilClosed() {
	_ = in.conn.SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.Copy(io.Discard, in.conn)
}

func (in *ReceivingConn) reply(what byte, words string) error {
	words = words[:min(len(words), maxErrorBytes)]
	_ = in.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := in.conn.Write(append([]byte{what, byte(len(words) >> 8), byte(len(words))}, words...))
	return err
}
