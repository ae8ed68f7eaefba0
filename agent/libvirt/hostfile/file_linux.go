package hostfile

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// OpenImage opens a regular file for reading. With follow it also accepts block devices and symbolic links. It never
// blocks on a FIFO.
func OpenImage(path string, follow bool) (*os.File, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && (!follow || info.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice) {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.EINVAL}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// IdentityOf returns the ID of the file that info describes.
func IdentityOf(info os.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ID{}
	case info.Mode()&(os.ModeDevice|os.ModeCharDevice) == os.ModeDevice:
		return ID{dev: st.Rdev, device: true}
	}
	return ID{dev: st.Dev, Ino: st.Ino}
}

// CopyOwner gives the file at path the owner and group in info.
func CopyOwner(path string, info os.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return os.Lchown(path, int(st.Uid), int(st.Gid))
	}
	return nil
}

// ChangedAt returns the file's change time (ctime) in nanoseconds.
func ChangedAt(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}

// AllocatedBytes returns the file's allocation on storage in bytes; for a device it returns size.
func AllocatedBytes(info os.FileInfo, size int64) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return st.Blocks * 512
	}
	return size
}

// supportsDirectIO reports whether the file's storage supports direct I/O, which the cache mode "none" requires.
func supportsDirectIO(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// QEMU locks single bytes of an image: one byte for each permission that it holds, and one byte for each permission
// that it denies to other processes.
const (
	qemuLocksAt = 100
	qemuLocks   = 200
	ofdGetLock  = 36 // F_OFD_GETLK
)

// IsOpenByQEMU reports whether a program holds one of QEMU's locks on the file.
func IsOpenByQEMU(path string) (bool, error) {
	f, err := OpenImage(path, false)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: qemuLocksAt, Len: qemuLocks}
	err = syscall.FcntlFlock(f.Fd(), ofdGetLock, &lock)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return false, nil // a file system without such locks
	}
	return lock.Type != syscall.F_UNLCK, err
}

// FreeBytes returns the free space of the file's file system.
func FreeBytes(f *os.File) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil { //nolint:gosec // a descriptor is a small number
		return 0, err
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize, nil
}
