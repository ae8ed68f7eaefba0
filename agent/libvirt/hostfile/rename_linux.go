package hostfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNoReplace renames a file and fails if the new name exists. On file systems without RENAME_NOREPLACE (NFS), it
// only links the new name, so the caller must then remove the old name with UnlinkOldName.
func RenameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return linkNoReplace(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
