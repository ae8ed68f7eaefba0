package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"time"

	"quantix/internal/fleet"
)

// A transfer is one file: its size, then pieces of data, each with its place and its length, in order and with holes between them, then one
// of no length. The receiver answers once. That what comes is what was sent TLS holds; the receiver alone sums it up.
const (
	admitted = 0x51 // the ticket was taken

	isWhole  = 0 // answers: the file is there and is what was sent,
	isWrong  = 1 // it is not: words follow,
	isBusied = 2 // wait: it is being looked at

	headBytes = 12
	mostWords = 1000
	silence   = 90 * time.Second // longest time without a byte

	hearOutTime = 3 * time.Second // for a sender to hear that it is refused
)

// ErrLost is in the error of a transfer whose other end has gone: it may be tried again.
var ErrLost = errors.New("the connection to the other host was lost")

// Pieces gives a file's bytes in order: blocks of data, and with a nil block the n bytes of a hole. No block is longer than 1 MiB.
type Pieces func(ctx context.Context, do func(at int64, block []byte, n int64) error) error

// File gives those of a file.
func File(f *os.File, size int64) Pieces {
	return func(ctx context.Context, do func(at int64, block []byte, n int64) error) error {
		return eachExtent(ctx, f, size, do)
	}
}

// Sink is where a file is written to.
type Sink interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// Outgoing is a connection that one file is sent by.
type Outgoing struct{ conn net.Conn }

// Close ends the connection.
func (o *Outgoing) Close() { o.conn.Close() }

// Send sends the file and waits until the receiver has said that it is there and whole.
func (o *Outgoing) Send(ctx context.Context, pieces Pieces, size int64, rate *Rate, meter *Meter) error {
	heard := make(chan error, 1)
	go func() { heard <- o.answer() }()
	stop := context.AfterFunc(ctx, o.Close)
	err := o.send(ctx, heard, pieces, size, rate, meter)
	stop()
	o.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// send listens all the while: a receiver that refuses says so in the midst of it, and takes no more.
func (o *Outgoing) send(ctx context.Context, heard <-chan error, pieces Pieces, size int64, rate *Rate, meter *Meter) error {
	var head [headBytes]byte
	var refused error
	binary.BigEndian.PutUint64(head[:8], uint64(size))
	err := o.write(head[:8])
	if err == nil {
		err = pieces(ctx, func(at int64, block []byte, n int64) error {
			select {
			case said := <-heard:
				refused = cmp.Or(said, errEarly)
				return refused
			default:
			}
			meter.Add(n)
			if block == nil {
				return nil
			}
			if err := rate.Take(ctx, len(block)); err != nil {
				return err
			}
			binary.BigEndian.PutUint64(head[:8], uint64(at))
			binary.BigEndian.PutUint32(head[8:], uint32(len(block)))
			return together(o.conn, func() error { return cmp.Or(o.write(head[:]), o.write(block)) })
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
		_ = o.conn.SetReadDeadline(time.Now().Add(silence))
		return <-heard
	case !errors.Is(err, ErrLost):
		return err
	}
	// What the receiver said before it went, where it said anything.
	_ = o.conn.SetReadDeadline(time.Now().Add(time.Second))
	if said := <-heard; said != nil && !errors.Is(said, ErrLost) {
		return said
	}
	return err
}

// errEarly is of a receiver that has a whole file before it was sent one.
var errEarly = errors.New("the other host answers before it has everything")

func (o *Outgoing) write(p []byte) error {
	_ = o.conn.SetWriteDeadline(time.Now().Add(silence))
	if _, err := o.conn.Write(p); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// answer is the receiver's.
func (o *Outgoing) answer() error {
	var head [3]byte
	for {
		if _, err := io.ReadFull(o.conn, head[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		words := make([]byte, min(int(binary.BigEndian.Uint16(head[1:])), mostWords))
		if _, err := io.ReadFull(o.conn, words); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		switch head[0] {
		case isWhole:
			return nil
		case isWrong:
			return fmt.Errorf("the other host says: %s", words)
		}
		_ = o.conn.SetReadDeadline(time.Now().Add(silence))
	}
}

// Incoming is a connection that one file comes by.
type Incoming struct{ conn net.Conn }

// Close ends the connection.
func (in *Incoming) Close() { in.conn.Close() }

// MostBytes is how long a file may say that it is: the largest disk, with as much again for what its format keeps beside. What comes as a hole takes
// no room, but is summed all the same.
const MostBytes = 2 * fleet.MaxDiskBytes

// Size is how long the file says that it is. It is asked once, and first.
func (in *Incoming) Size() (int64, error) {
	var head [8]byte
	if err := in.read(head[:]); err != nil {
		return 0, err
	}
	size := int64(binary.BigEndian.Uint64(head[:]))
	if size < 0 || size > MostBytes {
		return 0, errors.New("what the other host sends says that it is longer than any file may be")
	}
	return size, nil
}

func (in *Incoming) read(p []byte) error {
	_ = in.conn.SetReadDeadline(time.Now().Add(silence))
	if _, err := io.ReadFull(in.conn, p); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// Into writes the file of that size into dst, which must be empty, and returns the sum of what came, holes as zeros. room bounds the data that
// is taken; what is not sent is a hole. The bytes have reached the storage when it returns.
func (in *Incoming) Into(ctx context.Context, dst Sink, size, room int64, meter *Meter) (Sum, error) {
	stop := context.AfterFunc(ctx, in.Close)
	sum, err := in.into(ctx, dst, size, room, meter)
	if !stop() {
		err = context.Cause(ctx)
	}
	return sum, err
}

func (in *Incoming) into(ctx context.Context, dst Sink, size, room int64, meter *Meter) (Sum, error) {
	s := newSummer(ctx)
	defer s.end()
	w := newWriter(dst)
	defer w.end()
	var head [headBytes]byte
	for next := int64(0); ; {
		if err := in.read(head[:]); err != nil {
			return Sum{}, err
		}
		at, n := int64(binary.BigEndian.Uint64(head[:8])), int64(binary.BigEndian.Uint32(head[8:]))
		switch {
		case at < next || at > size || n > blockBytes || at+n > size || n == 0 && at != size:
			return Sum{}, errors.New("the other host sends what is no file")
		case room < n:
			return Sum{}, errors.New("what comes is more than there is room for")
		}
		room -= n
		if at > next {
			meter.Add(at - next)
			if err := s.zeros(at - next); err != nil {
				return Sum{}, err
			}
		}
		if next = at + n; n == 0 {
			break
		}
		block, err := w.block(n)
		if err != nil {
			return Sum{}, err
		}
		if err := in.read(block); err != nil {
			return Sum{}, err
		}
		if err := s.wait(); err != nil {
			return Sum{}, err
		}
		if err := s.add(block); err != nil {
			return Sum{}, err
		}
		w.put(block, at)
		meter.Add(n)
	}
	err := w.finish()
	if err == nil {
		err = dst.Truncate(size)
	}
	if err == nil {
		err = dst.Sync()
	}
	return s.sum(), err
}

// Busy tells the sender that the file is still being looked at.
func (in *Incoming) Busy() { _ = in.say(isBusied, "") }

// Answer tells the sender how it ended, and ends the connection.
func (in *Incoming) Answer(err error) {
	defer in.Close()
	if err == nil {
		_ = in.say(isWhole, "")
		return
	}
	if in.say(isWrong, err.Error()) == nil {
		in.hearOut()
	}
}

// hearOut reads on until the sender has heard and gone: closed with bytes of it unread, the connection would be reset, and what was said to
// the sender lost with it.
func (in *Incoming) hearOut() {
	_ = in.conn.SetReadDeadline(time.Now().Add(hearOutTime))
	_, _ = io.Copy(io.Discard, in.conn) // that it ends is all that counts
}

func (in *Incoming) say(what byte, words string) error {
	words = words[:min(len(words), mostWords)]
	_ = in.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := in.conn.Write(append([]byte{what, byte(len(words) >> 8), byte(len(words))}, words...))
	return err
}

// summer adds up beside those who read and write. What it is given must stay as it is until the next wait.
type summer struct {
	ctx  context.Context
	work chan []byte
	done chan error
	hash hash.Hash
	open int
}

func newSummer(ctx context.Context) *summer {
	s := &summer{ctx: ctx, work: make(chan []byte, 1), done: make(chan error, 1), hash: sha256.New()}
	go func() {
		for block := range s.work {
			s.hash.Write(block)
			s.done <- nil
		}
	}()
	return s
}

func (s *summer) end() {
	_ = s.wait()
	close(s.work)
}

func (s *summer) add(block []byte) error {
	s.open++
	s.work <- block
	return nil
}

func (s *summer) wait() error {
	for ; s.open > 0; s.open-- {
		if err := <-s.done; err != nil {
			return err
		}
	}
	return context.Cause(s.ctx)
}

func (s *summer) zeros(n int64) error {
	if err := s.wait(); err != nil {
		return err
	}
	return zeros(s.ctx, s.hash, n)
}

func (s *summer) sum() Sum {
	_ = s.wait()
	return Sum(s.hash.Sum(nil))
}

// writer writes beside those who read.
type writer struct {
	free chan []byte
	work chan written
	done chan struct{}
	err  error // of the work; read once done is closed
	fail chan struct{}
	over bool
}

type written struct {
	block []byte
	at    int64
}

// aheadBlocks is how many pieces may wait for the storage.
const aheadBlocks = 4

func newWriter(dst Sink) *writer {
	w := &writer{free: make(chan []byte, aheadBlocks), work: make(chan written, aheadBlocks), done: make(chan struct{}), fail: make(chan struct{})}
	for range aheadBlocks {
		w.free <- make([]byte, blockBytes)
	}
	go func() {
		defer close(w.done)
		for p := range w.work {
			if w.err == nil {
				if _, w.err = dst.WriteAt(p.block, p.at); w.err != nil {
					close(w.fail)
				}
			}
			w.free <- p.block[:blockBytes]
		}
	}()
	return w
}

// block is room for a piece of n bytes. The one before it may still be summed up when it is given: see Incoming.into.
func (w *writer) block(n int64) ([]byte, error) {
	select {
	case <-w.fail:
		w.end()
		return nil, w.err
	default:
	}
	return (<-w.free)[:n], nil
}

func (w *writer) put(block []byte, at int64) { w.work <- written{block, at} }

func (w *writer) end() {
	if !w.over {
		w.over = true
		close(w.work)
	}
	<-w.done
}

func (w *writer) finish() error {
	w.end()
	return w.err
}
