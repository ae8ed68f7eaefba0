package storage

import (
	"context"

	"quantix/agent/libvirt/conn"
)

// Guest is a domain of the host with its files.
type Guest struct {
	Name    string
	Managed bool
	Files   []string // all paths that the domain uses now, at its next start, or in its snapshots
}

// GuestReader reads the guests of the host.
type GuestReader func(context.Context, *conn.Conn) ([]Guest, error)
