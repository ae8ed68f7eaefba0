package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// ErrConnectionLost is the error of a call whose connection to libvirt was lost.
var ErrConnectionLost = hypervisor.WrapUnreachable(errors.New("the connection to libvirt was lost"))

// TranslateError converts an error of go-libvirt. The result wraps hypervisor.ErrUnreachable if QEMU timed out or the
// connection was lost. An error from libvirt gets the prefix "libvirt: ".
func TranslateError(err error) error {
	var libvirtErr golibvirt.Error
	switch {
	case err == nil:
		return nil
	case IsLibvirtCode(err, golibvirt.ErrOperationTimeout): // QEMU does not answer libvirt
		return hypervisor.WrapUnreachable(fmt.Errorf("libvirt: %w", err))
	case errors.As(err, &libvirtErr):
		return fmt.Errorf("libvirt: %w", err)
	case errors.Is(err, golibvirt.ErrInterrupted), errors.Is(err, syscall.EINVAL), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE):
		return ErrConnectionLost
	}
	return err
}

// IsLibvirtCode reports whether err is libvirt's error with that code.
func IsLibvirtCode(err error, code golibvirt.ErrorNumber) bool {
	var libvirtErr golibvirt.Error
	return errors.As(err, &libvirtErr) && golibvirt.ErrorNumber(libvirtErr.Code) == code
}

// IsObjectError reports whether err concerns only the queried object: libvirt returned an error for the object, or
// libvirt's answer cannot be parsed. Otherwise libvirt is unreachable or the context has ended.
func IsObjectError(err error) bool {
	err = TranslateError(err)
	return err != nil && (IsLibvirtError(err) || !errors.Is(err, hypervisor.ErrUnreachable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded))
}

// IsLibvirtError reports whether err is an answer of libvirt and not a failure to reach libvirt.
func IsLibvirtError(err error) bool {
	var libvirtErr golibvirt.Error
	return errors.As(err, &libvirtErr)
}

// WrapAction prefixes err with the action, such as "start web-01". A refusal stays unchanged, because its text is a
// complete sentence.
func WrapAction(act string, err error) error {
	var refusal *fleet.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("%s: %w", act, err)
}
