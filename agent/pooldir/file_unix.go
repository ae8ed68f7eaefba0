//go:build unix

package pooldir

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceNumber returns a device's number as in the kernel's tables: "8:1".
func deviceNumber(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))) //nolint:unconvert // the type of Rdev differs between systems
	}
	return ""
}

// inode returns the file's inode number.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
