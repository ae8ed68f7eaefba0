//go:build unix

package upgrades

import "syscall"

// openFlags: a symbolic link is refused, and a named pipe does not block.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
