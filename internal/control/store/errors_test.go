package store

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

func TestLostConnectionReturnsUnavailable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.OpError{Op: "read", Net: "unix", Err: syscall.ECONNRESET},
		&net.OpError{Op: "write", Net: "unix", Err: syscall.EPIPE},
		fmt.Errorf("receive message: %w", io.ErrUnexpectedEOF),
		net.ErrClosed,
	} {
		if code := fleet.CodeOf(UserError(fmt.Errorf("list VMs: %w", err))); code != fleet.Unavailable {
			t.Errorf("%v returned code %q", err, code)
		}
	}
	if code := fleet.CodeOf(UserError(errors.New("other error"))); code != "" {
		t.Errorf("other error returned code %q", code)
	}
}
