package agent

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock takes the file's lock; it ends with the process.
func flock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}

// syncDir does nothing: Windows journals file names itself, and cannot open a directory for a sync.
func syncDir(string) error { return nil }

// fileIdentity identifies the file by name and modification time: Windows has no inode in os.FileInfo.
func fileIdentity(info os.FileInfo) string {
	return info.Name() + info.ModTime().UTC().String()
}

// inode returns 0: pools exist on Linux hosts only.
func inode(os.FileInfo) uint64 { return 0 }

// deviceNumber returns "": Windows has no pools on devices.
func deviceNumber(os.FileInfo) string { return "" }
