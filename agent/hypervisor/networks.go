package hypervisor

import (
	"context"
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// Networks sets up the host's virtual networks.
type Networks interface {
	// ApplyNetwork defines, starts and autostarts the network, whose libvirt UUID is its id. It refuses a libvirt
	// network of that name with another UUID, and a definition that somebody edited on the host: the error lists the
	// differences. A network whose DHCP and DNS server has ended is restarted, unless a domain is connected to it.
	ApplyNetwork(ctx context.Context, network fleet.Network) error
	// ReleaseNetwork stops and undefines the network with that UUID, never another one of the same name. It refuses
	// while a domain on this host, running or not, has a NIC on it.
	ReleaseNetwork(ctx context.Context, network fleet.Network) error
}

// Faults of networks, shared by both backends.
const (
	NetworkMissing   = "libvirt on this host has no such network."
	NetworkRemoved   = "Somebody removed it on the host. Try again to make it anew."
	NetworkUndefined = "Its definition was removed on the host while it runs: it will be gone when it stops. Try again to define it."
	NetworkBehind    = "What runs on the host is another than its definition: somebody changed its DHCP reservations or port groups, or a change did not come through. Try again to bring it up to date."
	NetworkUnserved  = "dnsmasq is not running for it: guests get no addresses and no names there."
)

// NetworkEdited returns the fault of a network whose definition somebody edited on the host.
func NetworkEdited(parts []string) string {
	return fmt.Sprintf("Its definition on the host is another than here: %s. Undo that with virsh net-edit, or release the network from this host and assign it again.", strings.Join(parts, ", "))
}

// NetworkTaken refuses a network whose name another network of the host has.
func NetworkTaken(name string) error {
	return fleet.Errorf(fleet.Conflict, "The host has a network named %q already, which was not made by Quantix, so it is left alone. Give the network another name, or remove that one with virsh.", name)
}

// NetworkInUse refuses to stop a network that a domain has a NIC on.
func NetworkInUse(network, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The network %s is in use by %s. Take that VM off it first.", network, domain)
}

// NoDeviceFree refuses a NIC on a network that gives each NIC a host device or virtual function of its own.
func NoDeviceFree(network string) error {
	return fleet.Errorf(fleet.Conflict, "Nothing is free on this host for a NIC on the network %s: each NIC there takes a device, or a virtual function of one, for itself. Stop a VM that has one, or put the NIC on another network.", network)
}
