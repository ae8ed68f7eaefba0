package hostfile

import (
	"errors"
	"os"
)

// GrowFile grows a raw file without allocating space. It does not use libvirt or qemu-img, which might detect another
// format from the guest's data.
func GrowFile(path string, size int64) (err error) {
	f, err := OpenToWrite(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// OpenToWrite opens the regular file at the path for writing. It refuses a symbolic link.
func OpenToWrite(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || IdentityOf(is) != IdentityOf(info)) {
		err = &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
