package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// linkNoReplace gives the file the new name, too, and fails if a file with that name exists. The caller must then
// remove the old name with UnlinkOldName.
func linkNoReplace(from, to string) error {
	err := os.Link(from, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("the pool's file system cannot rename without replacing an existing file: %w", err)
	}
	return err
}

// UnlinkOldName removes a file's old name if the new name refers to the same file. It does not remove a new file under
// the old name.
func UnlinkOldName(from, to string) error {
	old, err := os.Lstat(from)
	if IsFileMissingError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := os.Lstat(to)
	if err != nil {
		return err
	}
	if IdentityOf(old) != IdentityOf(now) {
		return nil
	}
	return os.Remove(from)
}
