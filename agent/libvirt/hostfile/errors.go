package hostfile

import (
	"errors"
	"strings"
	"syscall"

	"quantix/internal/fleet"
)

// ErrNotRegular is the error of a path that is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// TranslateNoSpace replaces an out-of-space error by an error that says what to do.
func TranslateNoSpace(pool string, err error) error {
	if !IsNoSpaceError(err) {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "The pool %s has no space left on this host, and the unfinished volume was removed (%s). Free space in the pool, or choose another pool, and try again.", pool, err)
}

// IsNoSpaceError reports whether the error means that storage is full. libvirt and QEMU report the kernel's text.
// IsNoSpaceError returns false for a refusal, which already is an error for people.
func IsNoSpaceError(err error) bool {
	if _, refused := errors.AsType[*fleet.Error](err); refused || err == nil {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), "No space left on device") || strings.Contains(err.Error(), "Disk quota exceeded")
}
