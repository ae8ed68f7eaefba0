package guest

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dialVSOCK connects to a port of a guest's vsock.
func dialVSOCK(ctx context.Context, cid, port uint32) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "vsock")
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err == nil {
		err = connectVSOCK(raw, cid, port)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// connectVSOCK connects and waits until the guest has accepted or refused the connection.
func connectVSOCK(raw interface {
	Write(func(uintptr) bool) error
}, cid, port uint32,
) error {
	begun := false
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		if begun {
			var n int
			if n, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); failed == nil && n != 0 {
				failed = unix.Errno(n)
			}
			return true
		}
		begun = true
		failed = unix.Connect(int(fd), &unix.SockaddrVM{CID: cid, Port: port})
		return !errors.Is(failed, unix.EINPROGRESS)
	})
	return errors.Join(err, failed)
}
