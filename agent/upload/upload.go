// Package upload receives on a host a file that a client sends through a portal, over one connection after the other.
// Each connection continues where the file ends. The package knows neither pools nor images: see File.
package upload

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// finalAnswerTimeout is how long the last connection may take to request its final answer.
const finalAnswerTimeout = 10 * time.Second

// File is the destination of an upload. It receives the bytes in order.
type File interface {
	io.Writer
	// Size returns the number of bytes written.
	Size() int64
	// Sync writes the received bytes to the storage, so that they survive a crash.
	Sync() error
}

// Receive fills the file up to total bytes with the data of the connections. A new connection ends the previous one,
// whose sender may be gone. report periodically receives the number of bytes received so far. Receive returns nil once
// the complete file is synced. It returns an error of the file at once, and ignores errors of connections.
func Receive(ctx context.Context, conns <-chan io.ReadWriteCloser, total int64, to File, report func(done, total, rate int64)) error {
	meter := &uploadMeter{total: total, report: report, began: to.Size()}
	meter.update(to.Size())
	var now *uploadConn
	defer func() {
		if now != nil {
			now.close()
		}
	}()
	for {
		var left <-chan struct{}
		if now != nil {
			left = now.released
		} else if to.Size() == total {
			return to.Sync()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case conn := <-conns:
			if now != nil {
				now.close()
				if now.fileError != nil {
					conn.Close()
					return now.fileError
				}
			}
			now = serveConn(conn, total, to, meter)
		case <-left:
			fault := now.fileError
			if now = nil; fault != nil {
				return fault
			}
		}
	}
}

// uploadConn is one connection. It owns the file until released is closed.
type uploadConn struct {
	conn      io.ReadWriteCloser
	once      sync.Once
	released  chan struct{}
	fileError error // the file's error
}

func serveConn(conn io.ReadWriteCloser, total int64, to File, m *uploadMeter) *uploadConn {
	v := &uploadConn{conn: conn, released: make(chan struct{})}
	go func() {
		defer close(v.released)
		defer v.closeConn()
		v.fileError = v.copyToFile(total, to, m)
		if v.fileError != nil {
			// the sender may still be connected
			_ = wire.WriteUploadAnswer(conn, wire.UploadAnswer{Offset: to.Size(), Error: v.fileError.Error(), Final: true})
		}
	}()
	return v
}

// close ends the connection and waits until the file is released.
func (v *uploadConn) close() {
	v.closeConn()
	<-v.released
}

func (v *uploadConn) closeConn() { v.once.Do(func() { v.conn.Close() }) }

// copyToFile writes the connection's data to the file, and returns the file's error. The end of the connection is no
// error.
func (v *uploadConn) copyToFile(total int64, to File, m *uploadMeter) error {
	answer := func() (bool, error) {
		if err := to.Sync(); err != nil {
			return false, err
		}
		return wire.WriteUploadAnswer(v.conn, wire.UploadAnswer{Offset: to.Size()}) == nil, nil
	}
	if ok, err := answer(); !ok {
		return err
	}
	m.begin(to.Size())
	piece := make([]byte, wire.MaxUploadPiece)
	for {
		if to.Size() == total { // complete: the sender only asks for the offset
			defer time.AfterFunc(finalAnswerTimeout, v.closeConn).Stop()
		}
		n, err := wire.ReadUploadHeader(v.conn)
		switch {
		case err != nil:
			return to.Sync()
		case n == 0:
			if ok, err := answer(); !ok || to.Size() == total {
				return err
			}
			continue
		case int64(n) > total-to.Size():
			_ = wire.WriteUploadAnswer(v.conn, wire.UploadAnswer{Offset: to.Size(), Error: "The client sent more bytes than it had announced. Start the upload again."})
			return to.Sync()
		}
		got, err := io.ReadFull(v.conn, piece[:n])
		if _, failed := to.Write(piece[:got]); failed != nil {
			if fleet.CodeOf(failed) != "" {
				return failed
			}
			return fmt.Errorf("write the upload: %w", failed)
		}
		m.update(to.Size())
		if err != nil {
			return to.Sync()
		}
	}
}

// ChecksumMismatch returns the error for an upload whose checksum is not the expected one.
func ChecksumMismatch(algorithm, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The upload's %s is %s, but %s was expected. The file is not the expected file and was deleted.", algorithm, got, want)
}
