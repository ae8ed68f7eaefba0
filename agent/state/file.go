// Package state stores what the agent knows of its host and libvirt does not, in files of the agent's directory.
package state

import (
	"os"
	"path/filepath"
)

// WriteAtomic replaces a file so that a crash leaves the old or the new content, readable by its owner only, and after
// its return only the new one. google/renameio does not sync the directory, so an appended journal could be lost with
// its unsynced name; nor does it support Windows.
func WriteAtomic(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
