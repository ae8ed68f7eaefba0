package transfer

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
)

// wideBytes is how much goes to the kernel, and comes from it, at once.
const wideBytes = 256 << 10

// wide is what TLS stands on. TLS speaks in records of 16 KiB, of which the kernel gets and gives many at once when it is broad: once the peer
// is let in, so that strangers cost no memory.
type wide struct {
	net.Conn

	in *bufio.Reader // nil until it is broad

	mu      sync.Mutex // closing TLS writes, too
	out     *bufio.Writer
	gathers bool
}

// broaden is called while nobody reads or writes.
func (w *wide) broaden() {
	w.in = bufio.NewReaderSize(w.Conn, wideBytes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = bufio.NewWriterSize(w.Conn, wideBytes)
}

// Read implements net.Conn: it waits for no more than there is.
func (w *wide) Read(p []byte) (int, error) {
	if w.in == nil {
		return w.Conn.Read(p)
	}
	return w.in.Read(p)
}

// Write implements net.Conn.
func (w *wide) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return w.Conn.Write(p)
	}
	n, err := w.out.Write(p)
	if err == nil && !w.gathers {
		err = w.out.Flush()
	}
	return n, err
}

func (w *wide) gather(on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gathers = on
	if on || w.out == nil {
		return nil
	}
	return w.out.Flush()
}

// together has what do writes go together.
func together(conn net.Conn, do func() error) error {
	below, ok := conn.(*tls.Conn).NetConn().(*wide)
	if !ok {
		return do()
	}
	if err := below.gather(true); err != nil {
		return err
	}
	err := do()
	if flushed := below.gather(false); err == nil {
		err = flushed
	}
	return err
}

// broad makes the connection that the peer has come by one for many bytes.
func broad(conn *tls.Conn) net.Conn {
	if below, ok := conn.NetConn().(*wide); ok {
		below.broaden()
	}
	return conn
}
