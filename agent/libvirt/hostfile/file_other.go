//go:build !linux

package hostfile

import (
	"errors"
	"os"
)

// OpenImage is complete only on Linux.
func OpenImage(path string, _ bool) (*os.File, error) { return os.Open(path) }

// IdentityOf is complete only on Linux.
func IdentityOf(os.FileInfo) ID { return ID{} }

// CopyOwner is complete only on Linux.
func CopyOwner(string, os.FileInfo) error { return nil }

// ChangedAt is complete only on Linux.
func ChangedAt(os.FileInfo) int64 { return 0 }

// AllocatedBytes is complete only on Linux.
func AllocatedBytes(_ os.FileInfo, size int64) int64 { return size }

func supportsDirectIO(string) bool { return false }

// IsOpenByQEMU is complete only on Linux.
func IsOpenByQEMU(string) (bool, error) { return false, nil }

// FreeBytes is complete only on Linux.
func FreeBytes(*os.File) (int64, error) { return 0, errors.ErrUnsupported }
