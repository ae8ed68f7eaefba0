//go:build unix

package agent

import (
	"fmt"
	"os"
	"syscall"
)

// flock acquires the file's exclusive lock without waiting. The lock ends with the process.
func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// fileIdentity returns the file's device and inode number.
func fileIdentity(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return info.Name()
}
