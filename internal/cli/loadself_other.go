//go:build !linux

package cli

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
