//go:build !linux

package cli

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
