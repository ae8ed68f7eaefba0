package transfer

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
)

// connBufferBytes is the buffer size for reads and writes of the kernel.
const connBufferBytes = 68 << 10

// bufferedConn is the connection below TLS, whose records have at most 16 KiB. After enableBuffers many records share
// one system call. Buffers are enabled only once the peer is admitted, so that connections of other hosts cost no
// memory.
type bufferedConn struct {
	net.Conn

	in *bufio.Reader // nil until enableBuffers

	mu         sync.Mutex // TLS also writes during its close
	out        *bufio.Writer
	coalescing bool
}

// enableBuffers enables buffering. It must be called while nobody reads or writes.
func (w *bufferedConn) enableBuffers() {
	w.in = bufio.NewReaderSize(w.Conn, connBufferBytes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = bufio.NewWriterSize(w.Conn, connBufferBytes)
}

// Read implements net.Conn. It does not wait for a full buffer.
func (w *bufferedConn) Read(p []byte) (int, error) {
	if w.in == nil {
		return w.Conn.Read(p)
	}
	return w.in.Read(p)
}

// Write implements net.Conn.
func (w *bufferedConn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return w.Conn.Write(p)
	}
	n, err := w.out.Write(p)
	if err == nil && !w.coalescing {
		err = w.out.Flush()
	}
	return n, err
}

func (w *bufferedConn) setCoalescing(on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coalescing = on
	if on || w.out == nil {
		return nil
	}
	return w.out.Flush()
}

// coalesceWrites buffers all that do writes to conn, and then flushes the buffer once.
func coalesceWrites(conn net.Conn, do func() error) error {
	below, ok := conn.(*tls.Conn).NetConn().(*bufferedConn)
	if !ok {
		return do()
	}
	if err := below.setCoalescing(true); err != nil {
		return err
	}
	err := do()
	if flushed := below.setCoalescing(false); err == nil {
		err = flushed
	}
	return err
}

// coalescingConn is an admitted peer's connection for use in both directions. The TLS records of one Write share the
// system calls.
type coalescingConn struct{ net.Conn }

// Write implements net.Conn.
func (c coalescingConn) Write(p []byte) (n int, err error) {
	err = coalesceWrites(c.Conn, func() (err error) {
		n, err = c.Conn.Write(p)
		return err
	})
	return n, err
}

// enableBuffering enables buffering on the admitted peer's connection.
func enableBuffering(conn *tls.Conn) net.Conn {
	if below, ok := conn.NetConn().(*bufferedConn); ok {
		below.enableBuffers()
	}
	return conn
}
