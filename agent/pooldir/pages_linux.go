package pooldir

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetPages drops the file's page cache, so that the next read asks the storage, if the kernel complies.
func forgetPages(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
