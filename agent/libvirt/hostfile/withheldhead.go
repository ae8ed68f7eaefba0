package hostfile

import (
	"io"
	"os"
)

// WithheldHeadBytes is the length of a file's head in bytes. It covers all bytes that libvirt reads to detect a format.
const WithheldHeadBytes = 64 << 10

// WithheldHeadFile writes a file without its head, and WriteHead adds the head after the inspection. libvirt reads
// every file of a pool on refresh, and deactivates the whole pool if it cannot read a header.
type WithheldHeadFile struct {
	File   *os.File
	Head   []byte
	Bytes  int64
	synced int64 // number of bytes known to be on the storage
}

// syncIntervalBytes is how many bytes are written between two syncs, so that the last sync is short.
const syncIntervalBytes = 256 << 20

// Write implements io.Writer.
func (h *WithheldHeadFile) Write(p []byte) (int, error) {
	n := min(len(p), WithheldHeadBytes-len(h.Head))
	h.Head = append(h.Head, p[:n]...)
	if n < len(p) {
		more, err := h.File.WriteAt(p[n:], h.Bytes+int64(n))
		n += more
		if err != nil {
			h.Bytes += int64(n)
			return n, err
		}
	}
	h.Bytes += int64(n)
	if h.Bytes-h.synced < syncIntervalBytes {
		return n, nil
	}
	h.synced = h.Bytes
	return n, h.File.Sync()
}

// ReadAt implements io.ReaderAt. It reads the final file, including the withheld head.
func (h *WithheldHeadFile) ReadAt(p []byte, at int64) (n int, err error) {
	if at < int64(len(h.Head)) {
		n = copy(p, h.Head[at:])
	}
	if n == len(p) {
		return n, nil
	}
	if at+int64(n) >= h.Bytes {
		return n, io.EOF
	}
	more, err := h.File.ReadAt(p[n:], at+int64(n))
	return n + more, err
}

// WriteHead writes the withheld head of the file.
func (h *WithheldHeadFile) WriteHead() error {
	_, err := h.File.WriteAt(h.Head, 0)
	return err
}
