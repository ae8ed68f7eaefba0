//go:build unix

package state

import (
	"errors"
	"os"
)

// SyncDir syncs a directory, so that its new file names survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
