package transfer

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextExtent returns the start and end of the next data at or after offset. If the storage does not report holes,
// everything is data.
func nextExtent(f *os.File, offset, size int64) (data, hole int64) {
	data, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size
	case err != nil || data < offset:
		return offset, size
	}
	hole, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
	if err != nil || hole <= data {
		hole = size
	}
	return min(data, size), min(hole, size)
}

// dropPageCache drops the file's page cache, so that the next read comes from the storage. Pages that the kernel does
// not drop are still read from the cache.
func dropPageCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// writeback starts to write n bytes of the file to the storage. Sync reports the errors.
func writeback(f *os.File, offset, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}
