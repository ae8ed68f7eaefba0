//go:build !linux

package image

import (
	"os"
	"os/exec"
)

func runAsNobody(*exec.Cmd, *os.File) (revoke func() error, err error) {
	return func() error { return nil }, nil
}

func grantAccessToNobody(*os.File, os.FileMode) (func() error, error) {
	return func() error { return nil }, nil
}

func newDeletedDir() (dir string, closeDir func() error, err error) {
	dir, err = os.MkdirTemp("", "quantix-image-")
	return dir, func() error { return os.Remove(dir) }, err
}
