package transfer

import (
	"context"
	"crypto/sha256"
	"hash"
)

const (
	// aheadBlocks is how many pieces may wait for the hash and the storage together: a stage that is late for a moment
	// holds up no other.
	aheadBlocks = 8
	// writebackBytes is how much is written before the storage is set to work on it. Left to the kernel, most of a file
	// waits for the Sync at its end, and guests on the host wait behind that.
	writebackBytes = 8 << 20
)

// pipeline hashes and writes a file's pieces behind whoever reads them: one goroutine hashes, and hands each piece to
// one that writes.
type pipeline struct {
	free   chan []byte
	hashes chan piece
	writes chan piece
	done   chan struct{} // closed when the last piece is written
	fail   chan struct{} // closed at the first error
	err    error         // that one; read once fail or done is closed
	hash   hash.Hash
	over   bool
	cancel context.CancelFunc
}

// piece is a block of the file, and how long a hole is before it.
type piece struct {
	block    []byte
	at, hole int64
}

// newPipeline writes to dst. An end of ctx cuts off the hashing of a hole, and nothing else.
func newPipeline(ctx context.Context, dst Sink) *pipeline {
	ctx, cancel := context.WithCancel(ctx)
	p := &pipeline{
		cancel: cancel,
		free:   make(chan []byte, aheadBlocks), hashes: make(chan piece, aheadBlocks), writes: make(chan piece, aheadBlocks),
		done: make(chan struct{}), fail: make(chan struct{}), hash: sha256.New(),
	}
	for range aheadBlocks {
		p.free <- nil // made when it is needed: few files are long
	}
	go p.hashAll(ctx)
	go p.writeAll(dst)
	return p
}

func (p *pipeline) hashAll(ctx context.Context) {
	defer close(p.writes)
	for x := range p.hashes {
		_ = zeros(ctx, p.hash, x.hole) // it ends early only where nobody wants the sum any more
		p.hash.Write(x.block)
		p.writes <- x
	}
}

func (p *pipeline) writeAll(dst Sink) {
	defer close(p.done)
	var from, to int64 // written, and not yet on its way to the storage
	for x := range p.writes {
		if len(x.block) > 0 && p.err == nil {
			if _, p.err = dst.WriteAt(x.block, x.at); p.err != nil {
				close(p.fail)
			}
		}
		if x.at != to {
			from = x.at
		}
		if to = x.at + int64(len(x.block)); to-from >= writebackBytes && p.err == nil {
			dst.Writeback(from, to-from)
			from = to
		}
		p.free <- x.block[:cap(x.block)]
	}
}

// block is room for a piece of n bytes.
func (p *pipeline) block(n int64) ([]byte, error) {
	select {
	case <-p.fail:
		return nil, p.err
	case b := <-p.free:
		if b == nil && n > 0 {
			b = make([]byte, blockBytes)
		}
		return b[:n], nil
	}
}

func (p *pipeline) put(x piece) { p.hashes <- x }

// end gives up what is not yet hashed of a hole, and waits until nothing is written any more. Once finish was called it
// does nothing.
func (p *pipeline) end() {
	p.cancel()
	p.close()
}

func (p *pipeline) close() {
	if !p.over {
		p.over = true
		close(p.hashes)
	}
	<-p.done
}

// finish is the sum of all pieces, once all are written.
func (p *pipeline) finish() (Sum, error) {
	p.close()
	return Sum(p.hash.Sum(nil)), p.err
}
