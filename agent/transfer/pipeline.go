package transfer

import (
	"context"
	"crypto/sha256"
	"hash"
)

const (
	// maxQueuedBlocks is the number of blocks that may wait for hashing and writing together, so that a short delay of one
	// stage does not stop the others.
	maxQueuedBlocks = 8
	// writebackBytes is the number of bytes written before writeback starts. Without writeback, the kernel writes most
	// of a file during the final Sync, and the guests' I/O waits behind it.
	writebackBytes = 8 << 20
)

// hashWritePipeline hashes and writes a file's pieces behind their reader. One goroutine hashes each piece and passes
// it to a second one, which writes it.
type hashWritePipeline struct {
	free   chan []byte
	hashes chan filePiece
	writes chan filePiece
	done   chan struct{} // closed when the last piece is written
	fail   chan struct{} // closed at the first error
	err    error         // the first error; valid once fail or done is closed
	hash   hash.Hash
	closed bool
	cancel context.CancelFunc
}

// filePiece is a block of the file, and the length of the hole before the block.
type filePiece struct {
	block    []byte
	at, hole int64
}

// newPipeline returns a pipeline that writes to dst. ctx only interrupts the hashing of a hole.
func newPipeline(ctx context.Context, dst Sink) *hashWritePipeline {
	ctx, cancel := context.WithCancel(ctx)
	p := &hashWritePipeline{
		cancel: cancel,
		free:   make(chan []byte, maxQueuedBlocks), hashes: make(chan filePiece, maxQueuedBlocks), writes: make(chan filePiece, maxQueuedBlocks),
		done: make(chan struct{}), fail: make(chan struct{}), hash: sha256.New(),
	}
	for range maxQueuedBlocks {
		p.free <- nil // allocated when needed, because most files are short
	}
	go p.hashAll(ctx)
	go p.writeAll(dst)
	return p
}

func (p *hashWritePipeline) hashAll(ctx context.Context) {
	defer close(p.writes)
	for x := range p.hashes {
		_ = hashZeros(ctx, p.hash, x.hole) // hashZeros fails only if the sum is no longer needed
		p.hash.Write(x.block)
		p.writes <- x
	}
}

func (p *hashWritePipeline) writeAll(dst Sink) {
	defer close(p.done)
	var from, to int64 // written bytes that writeback has not started yet
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

// takeBuffer returns a buffer of n bytes, or the pipeline's first error.
func (p *hashWritePipeline) takeBuffer(n int64) ([]byte, error) {
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

func (p *hashWritePipeline) enqueue(x filePiece) { p.hashes <- x }

// abandon discards unhashed holes and waits until all writes have ended. After finish it does nothing.
func (p *hashWritePipeline) abandon() {
	p.cancel()
	p.close()
}

func (p *hashWritePipeline) close() {
	if !p.closed {
		p.closed = true
		close(p.hashes)
	}
	<-p.done
}

// finish waits until all pieces are written, and returns their sum.
func (p *hashWritePipeline) finish() (FileSum, error) {
	p.close()
	return FileSum(p.hash.Sum(nil)), p.err
}
