//go:build !linux

package testkit

import "os"

// scratch makes a directory for the server, which lock holds until it is closed.
func scratch() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", scratchName); err != nil {
		return "", nil, err
	}
	lock, err = os.Open(dir)
	return dir, lock, err
}
