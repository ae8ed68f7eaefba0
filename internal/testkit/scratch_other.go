//go:build !linux

package testkit

import "os"

// scratch creates the directory of the PostgreSQL server. It is locked until lock is closed.
func scratch() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", scratchName); err != nil {
		return "", nil, err
	}
	lock, err = os.Open(dir)
	return dir, lock, err
}
