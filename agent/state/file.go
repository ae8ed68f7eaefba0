// Package state stores, in files of the agent's directory, facts about the host that libvirt does not store.
package state

import (
	"os"
	"path/filepath"
)

// WriteAtomic replaces a file, which only its owner can read. A crash during the call leaves the old or the new
// content; after the return, only the new. The package google/renameio is not used: it does not sync the directory, so
// a crash could lose the new name, and it does not support Windows.
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
	return SyncDir(filepath.Dir(path))
}
