package agent

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock takes the file's lock, which ends with the process.
func flock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}

// syncDir does nothing: Windows keeps names in a journal of its own, and opens no directory for this.
func syncDir(string) error { return nil }

// fileIdentity names the file: Windows has no inode in os.FileInfo, so its birth stands in.
func fileIdentity(info os.FileInfo) string {
	return info.Name() + info.ModTime().UTC().String()
}

// inode is nothing: pools of real hosts lie on Linux.
func inode(os.FileInfo) uint64 { return 0 }

// deviceNumber is nothing: Windows runs no pools on devices.
func deviceNumber(os.FileInfo) string { return "" }
