package agent

import (
	"os"
	"path/filepath"
)

// writeAtomic replaces a file so that a crash leaves the old or the new content, readable by its owner only, and a crash after it
// has returned the new one. (google/renameio does not sync the directory: what is appended and synced later, as the journal is,
// could be lost with a name that never came to disk. Nor does it exist on Windows.)
func writeAtomic(path string, data []byte) error {
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
