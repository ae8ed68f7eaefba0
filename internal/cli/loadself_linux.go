package cli

import "syscall"

// ownProcessGroup returns attributes for a process that Ctrl-C does not reach and that ends when this process dies.
func ownProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
