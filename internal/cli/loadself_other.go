//go:build !linux

package cli

import "syscall"

func ownProcessGroup() *syscall.SysProcAttr { return nil }
