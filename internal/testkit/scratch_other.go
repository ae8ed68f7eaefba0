//go:build !linux

package testkit

import "os"

// createScratchDir creates the directory of the PostgreSQL server. It is locked until lock is closed.
func createScratchDir() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", scratchName); err != nil {
		return "", nil, err
	}
	lock, err = os.Open(dir)
	return dir, lock, err
}
