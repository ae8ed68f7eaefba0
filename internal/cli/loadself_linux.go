package cli

import "syscall"

// apart starts a process that Ctrl-C does not reach, and that ends when this one dies.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
