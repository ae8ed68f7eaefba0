package pooldir_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"quantix/agent/pooldir"
)

// mountStaleableDir mounts a directory of a user-space file server. After forget, each call in the directory returns
// ESTALE, as for an NFS server after a restart.
func mountStaleableDir(t *testing.T) (dir string, forget func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts a file system: run it as root")
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := syscall.Mount("stale", dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())); err != nil {
		t.Fatal(errors.Join(err, dev.Close()))
	}
	var stale atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serveFUSE(dev, &stale)
	}()
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-ended
		_ = dev.Close()
	})
	return dir, func() { stale.Store(true) }
}

// serveFUSE serves an empty directory to the kernel until it is unmounted.
func serveFUSE(dev *os.File, stale *atomic.Bool) {
	const opLookup, opForget, opGetattr, opStatfs, opInit, opOpendir, opDestroy, opInterrupt, opBatchForget = 1, 2, 3, 17, 26, 27, 38, 36, 42
	in := make([]byte, 1<<17)
	for {
		n, err := syscall.Read(int(dev.Fd()), in)
		if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) {
			continue
		}
		if err != nil || n < 40 {
			return // ENODEV: unmounted
		}
		op, unique := binary.LittleEndian.Uint32(in[4:]), binary.LittleEndian.Uint64(in[8:])
		var body []byte
		var no syscall.Errno
		switch {
		case op == opForget || op == opBatchForget || op == opInterrupt:
			continue
		case op == opInit:
			body = make([]byte, 64)
			binary.LittleEndian.PutUint32(body[0:], 7)
			binary.LittleEndian.PutUint32(body[4:], 31)
			binary.LittleEndian.PutUint32(body[20:], 1<<16) // max_write
		case op == opDestroy:
		case stale.Load():
			no = syscall.ESTALE
		case op == opGetattr:
			body = make([]byte, 16+88)                                         // attributes are not cached
			binary.LittleEndian.PutUint64(body[16:], 1)                        // inode
			binary.LittleEndian.PutUint32(body[16+60:], syscall.S_IFDIR|0o755) // mode
			binary.LittleEndian.PutUint32(body[16+64:], 2)                     // links
		case op == opOpendir:
			body = make([]byte, 16)
		case op == opStatfs:
			body = make([]byte, 80)
		case op == opLookup:
			no = syscall.ENOENT
		default:
			no = syscall.ENOSYS
		}
		out := make([]byte, 16, 16+len(body))
		binary.LittleEndian.PutUint32(out[0:], uint32(16+len(body)))
		binary.LittleEndian.PutUint32(out[4:], uint32(-int32(no)))
		binary.LittleEndian.PutUint64(out[8:], unique)
		if _, err := syscall.Write(int(dev.Fd()), append(out, body...)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return
		}
	}
}

// A stale handle is reported both by the probe of a pool's directory and by InspectDir.
func TestStaleFileHandleIsReported(t *testing.T) {
	t.Parallel()
	dir, forget := mountStaleableDir(t)
	if _, err := pooldir.InspectDir(dir); err != nil {
		t.Fatalf("before: %v", err)
	}
	forget()
	said := strings.ToLower(syscall.ESTALE.Error())
	if _, err := pooldir.ProbeDir(dir); err == nil || !strings.Contains(strings.ToLower(err.Error()), said) {
		t.Errorf("the probe reports %v", err)
	}
	if _, err := pooldir.InspectDir(dir); err == nil || !strings.Contains(strings.ToLower(err.Error()), said) {
		t.Errorf("SeePlace reports %v", err)
	}
}
