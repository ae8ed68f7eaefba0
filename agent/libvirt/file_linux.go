package libvirt

import (
	"os"
	"syscall"
)

// openImage opens a file for reading; a FIFO does not block it. Where it is to follow, also a symbolic link or a block device
// will do; else only a regular file that stands at that very path.
func openImage(path string, follow bool) (*os.File, error) {
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

func identityOf(info os.FileInfo) fileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fileID{}
	case info.Mode()&(os.ModeDevice|os.ModeCharDevice) == os.ModeDevice:
		return fileID{dev: st.Rdev, device: true}
	}
	return fileID{dev: st.Dev, ino: st.Ino}
}

// allocated is what the file takes on its storage; a device takes all of its size.
func allocated(info os.FileInfo, size int64) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return st.Blocks * 512
	}
	return size
}

// direct reports whether the file's storage takes direct I/O, which cache "none" needs.
func direct(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
