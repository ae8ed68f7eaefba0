//go:build !linux

package healthcheck

import "errors"

func kernelClockSynchronized() (bool, error) {
	return false, errors.New("only Linux reports it")
}
