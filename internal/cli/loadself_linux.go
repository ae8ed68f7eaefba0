package cli

import "syscall"

// ownGroup returns attributes for a process that Ctrl-C does not reach and that ends when this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
