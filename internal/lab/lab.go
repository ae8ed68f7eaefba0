// Package lab makes real libvirt hosts on one Linux machine, and a tiny guest to boot on them.
//
// A host is a set of mount, UTS, PID and cgroup namespaces with its own libvirtd, host UUID and NAT network; it shares
// the machine's files and, unless it is put on a Switch, its network namespace. Several stand side by side, in one program or in many, and can migrate
// guests to each other. A host lives no longer than the program that started it, however that program ends.
package lab

import (
	"log/slog"
)

// Options says what host to start.
type Options struct {
	// Dir is the host's own directory, made where it is missing. What the host keeps (definitions, logs, its UUID) stays
	// there and is found again by the next start. It must be absolute and at most 80 bytes long, for its Unix sockets.
	Dir string
	// Name is the host name inside.
	Name string
	// Index is the first number tried for the host's bridge (qxlab<n>) and subnet (192.168.<200+n>.0/24); the next free
	// one is taken where it is in use.
	Index int
	// SharedDirs are made where they are missing and have the same path inside and outside, for pools of several hosts.
	SharedDirs []string
	// Peers are names of other hosts that must resolve inside, for migration to them.
	Peers []string
	// Switch joins the host to others and to the machine, and gives it a network namespace of its own; nil: it has the machine's.
	Switch *Switch
	// Env is added to the environment of everything that Command runs, as "KEY=value".
	Env []string
	// Log receives what is wrong but not fatal; nil is slog.Default().
	Log *slog.Logger
}

// GuestFiles are the paths of the tiny guest's images.
type GuestFiles struct {
	Kernel string // for direct boot
	Initrd string // for direct boot
	ISO    string // boots from a CD-ROM
	Disk   string // qcow2 (compat 1.1), 64 MiB, boots from a virtio disk under SeaBIOS
}
