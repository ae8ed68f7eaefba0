package hostfile

import (
	"os"

	"quantix/agent/transfer"
)

// ReceivedFile is the file of a transfer. It withholds the file's head until the inspection: see WithheldHeadFile.
type ReceivedFile struct {
	File *os.File
	Head [WithheldHeadBytes]byte
}

// WriteAt implements transfer.Sink.
func (i *ReceivedFile) WriteAt(p []byte, at int64) (int, error) {
	n := 0
	if at < WithheldHeadBytes {
		n = copy(i.Head[at:], p)
	}
	if n == len(p) {
		return n, nil
	}
	more, err := i.File.WriteAt(p[n:], at+int64(n))
	return n + more, err
}

// Writeback implements transfer.Sink.
func (i *ReceivedFile) Writeback(at, n int64) { transfer.FileSink{File: i.File}.Writeback(at, n) }

// Truncate implements transfer.Sink.
func (i *ReceivedFile) Truncate(size int64) error {
	if size == 0 {
		clear(i.Head[:])
	}
	return i.File.Truncate(size)
}

// Sync implements transfer.Sink.
func (i *ReceivedFile) Sync() error { return i.File.Sync() }
