//go:build !linux

package libvirt

import (
	"errors"
	"os"
)

func openImage(path string, _ bool) (*os.File, error) { return os.Open(path) }

func identityOf(os.FileInfo) fileID { return fileID{} }

func copyOwner(string, os.FileInfo) error { return nil }

func changedAt(os.FileInfo) int64 { return 0 }

func allocated(_ os.FileInfo, size int64) int64 { return size }

func supportsDirectIO(string) bool { return false }

func openByQEMU(string) (bool, error) { return false, nil }

func freeBytes(*os.File) (int64, error) { return 0, errors.ErrUnsupported }
