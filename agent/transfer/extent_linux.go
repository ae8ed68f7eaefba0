package transfer

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextExtent is where data begins at or behind at, and where it ends. Where the storage does not tell, all is data.
func nextExtent(f *os.File, at, size int64) (data, hole int64) {
	data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size
	case err != nil || data < at:
		return at, size
	}
	hole, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
	if err != nil || hole <= data {
		hole = size
	}
	return min(data, size), min(hole, size)
}

// forget has the kernel read the file from its storage again. Where it keeps pages all the same, it is read from those.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// writeback has the kernel begin to write these bytes of the file to its storage. An error is Sync's to report.
func writeback(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WRITE)
}
