//go:build linux

package link

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewDialFunc returns a dialer whose connections use only the device; empty: any.
func NewDialFunc(device string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if device != "" {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var bound error
			err := c.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), device) })
			if err == nil {
				err = bound
			}
			return err
		}
	}
	return d.DialContext
}
