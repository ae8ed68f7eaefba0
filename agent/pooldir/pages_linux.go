package pooldir

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropPageCache asks the kernel to drop the file's page cache, so that the next read comes from the storage.
func dropPageCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
