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

func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.OpError{Op: "read", Net: "unix", Err: syscall.ECONNRESET},
		&net.OpError{Op: "write", Net: "unix", Err: syscall.EPIPE},
		fmt.Errorf("receive message: %w", io.ErrUnexpectedEOF),
		net.ErrClosed,
	} {
		if code := fleet.CodeOf(Err(fmt.Errorf("list VMs: %w", err))); code != fleet.Unavailable {
			t.Errorf("%v became %q", err, code)
		}
	}
	if code := fleet.CodeOf(Err(errors.New("a mistake of ours"))); code != "" {
		t.Errorf("a mistake of ours became %q", code)
	}
}
