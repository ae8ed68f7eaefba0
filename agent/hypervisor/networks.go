package hypervisor

import (
	"context"
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// Networks sets up the host's virtual networks.
type Networks interface {
	// ApplyNetwork defines, starts and autostarts the network, whose libvirt UUID is its ID. It refuses if a libvirt
	// network with that name has another UUID, or if somebody edited the definition on the host; the error lists the
	// differences. It restarts a network whose DHCP and DNS server has ended, unless a domain is connected to the
	// network. An adopted network is the host's own network with its name: ApplyNetwork only starts it, and refuses a
	// missing network and one whose definition differs from the spec.
	ApplyNetwork(ctx context.Context, network fleet.Network) error
	// ReapplyNetwork works like ApplyNetwork, but overwrites an edited definition. It restarts a network that runs with
	// the edited definition, and refuses the restart while a domain is connected to the network; the definition is then
	// already overwritten. It refuses an adopted network.
	ReapplyNetwork(ctx context.Context, network fleet.Network) error
	// ReleaseNetwork stops and undefines the network with the UUID, never another one with the same name. It refuses
	// while a running or stopped domain on this host has a NIC on the network. It does not change an adopted network.
	ReleaseNetwork(ctx context.Context, network fleet.Network) error
}

// Faults of networks, shared by both backends.
const (
	NetworkMissingText   = "The network does not exist in libvirt on this host."
	NetworkRemovedText   = "Somebody removed the network on the host. Try again to create the network again."
	NetworkUndefinedText = "Somebody removed the network's definition on the host. The network still runs, but is lost when it stops. Try again to define the network."
	NetworkOutdatedText  = "The running network differs from its definition: somebody changed its DHCP reservations or port groups, or a change failed. Try again to update the network."
	NoDnsmasqText        = "dnsmasq is not running for the network, so guests get no addresses and no names."
)

// NetworkEditedText returns the fault of a network whose definition somebody edited on the host.
func NetworkEditedText(parts []string) string {
	return fmt.Sprintf("The network's definition on the host was edited: %s. Reapply the network, accept the edit, or undo it with virsh net-edit.", strings.Join(parts, ", "))
}

// AdoptedNetworkEditedText returns the fault of an adopted network whose definition on the host differs from the spec.
func AdoptedNetworkEditedText(parts []string) string {
	return fmt.Sprintf("The network's definition on the host differs: %s. Accept the host's values, or undo the edit with virsh net-edit.", strings.Join(parts, ", "))
}

// RefuseMissingAdoptedNetwork refuses an adopted network that the host does not have.
func RefuseMissingAdoptedNetwork(name string) error {
	return fleet.Errorf(fleet.Conflict, "The host has no network named %q any more. Define the network there with virsh, or unassign it.", name)
}

// RefuseNetworkRestart refuses to restart a network that runs with an edited definition while a domain uses it.
func RefuseNetworkRestart(parts []string, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The network's definition is restored, but the network still runs with the edited one (%s). "+
		"A restart of the network would cut off %s. Disconnect that VM, then reapply again.", strings.Join(parts, ", "), domain)
}

// RefuseTakenNetworkName refuses a network if an unmanaged network of the host has the same name.
func RefuseTakenNetworkName(name string) error {
	return fleet.Errorf(fleet.Conflict, "The host already has a network named %q, which was not created by Quantix. Adopt the host's network, or give your network another name.", name)
}

// RefuseUsedNetwork refuses to stop a network with a NIC of a domain.
func RefuseUsedNetwork(network, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The network %s is in use by %s. Disconnect that VM first.", network, domain)
}

// RefuseNICWithoutDevice refuses a NIC on a network that needs a host device or virtual function for each NIC.
func RefuseNICWithoutDevice(network string) error {
	return fleet.Errorf(fleet.Conflict, "This host has no free device for a NIC on the network %s: each NIC needs its own device or virtual function. Stop a VM on this network, or connect the NIC to another network.", network)
}
