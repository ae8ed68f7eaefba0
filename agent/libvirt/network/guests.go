package network

import (
	"context"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
)

// Guest is a domain of the host with its NICs.
type Guest struct {
	Ref        golibvirt.Domain
	Persistent domxml.Hardware
	Live       *domxml.Hardware // nil: the guest is off
}

// GuestReader reads the guests of the host.
type GuestReader func(context.Context, *conn.Conn) ([]Guest, error)

// hasNIC reports whether the persistent or the running definition has a NIC for which match returns true.
func (g Guest) hasNIC(match func(domxml.NICHardware) bool) bool {
	return slices.ContainsFunc(g.Persistent.NICs, match) || g.Live != nil && slices.ContainsFunc(g.Live.NICs, match)
}
