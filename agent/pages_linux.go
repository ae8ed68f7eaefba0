package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetPages has the next read of the file ask the storage, where the kernel heeds it.
func forgetPages(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
