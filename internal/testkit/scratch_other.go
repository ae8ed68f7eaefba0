//go:build !linux

package testkit

import "os"

// scratch creates the server's directory, locked by lock until it is closed.
func scratch() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", scratchName); err != nil {
		return "", nil, err
	}
	lock, err = os.Open(dir)
	return dir, lock, err
}
