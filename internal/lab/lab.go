// Package lab runs real libvirt hosts on one Linux machine, and builds a tiny guest to boot on them.
//
// A host consists of mount, UTS, PID and cgroup namespaces with its own libvirtd, host UUID and NAT network. It shares
// the machine's files and, without a Switch, the machine's network namespace. Several hosts can run at the same time,
// in one program or in several, and can migrate guests to each other. A host ends when the program that started it
// ends, even if that program is killed.
package lab

import (
	"log/slog"
)

// Options configures a host.
type Options struct {
	// Dir is the host's own directory, which is created if missing. Definitions, logs and the UUID stay in it across
	// starts. It must be an absolute path of at most 80 bytes, because Unix sockets are below it.
	Dir string
	// Name is the host name inside the host.
	Name string
	// Index is the first number to try for the host's bridge (qxlab<n>) and subnet (192.168.<200+n>.0/24). If that
	// number is in use, the host gets the next free number.
	Index int
	// SharedDirs are directories that have the same path inside and outside the host, for pools that several hosts
	// share. Missing directories are created.
	SharedDirs []string
	// Peers are the names of other hosts that this host must be able to resolve, for migration to them.
	Peers []string
	// Switch connects the host to other hosts and to the machine; the host then has its own network namespace. If it is
	// nil, the host shares the machine's network namespace.
	Switch *Switch
	// Env is added to the environment of each command from Command, in the form "KEY=value".
	Env []string
	// Log receives problems that are not fatal. If it is nil, slog.Default() receives them.
	Log *slog.Logger
}

// GuestFiles are the paths of the tiny guest's images.
type GuestFiles struct {
	Kernel string // for direct boot
	Initrd string // for direct boot
	ISO    string // boots from a CD-ROM
	Disk   string // qcow2 (compat 1.1), 64 MiB, boots from a virtio disk under SeaBIOS
}
