package libvirt

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameAlone renames a file, never over another. File systems that cannot promise that (NFS) get a second name, and lose the first.
func renameAlone(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return linkAlone(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
