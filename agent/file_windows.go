package agent

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock acquires the file's exclusive lock without waiting. The lock ends with the process.
func flock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}

// fileIdentity identifies the file by name and modification time: Windows has no inode in os.FileInfo.
func fileIdentity(info os.FileInfo) string {
	return info.Name() + info.ModTime().UTC().String()
}
