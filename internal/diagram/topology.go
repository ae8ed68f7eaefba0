// Package diagram has the values that pages draw: topologies, matrices of hosts, and the trees of the inventory.
package diagram

import "quantix/internal/fleet"

// Bounds of topology diagrams. Diagrams count the objects beyond the bounds and link to their list.
const (
	TopologyVMs   = 40  // VMs shown in one diagram
	TopologyRead  = 200 // VMs read for one diagram; VMs that need attention come first
	TopologyHosts = 20  // hosts of one network
)

// HostTopology is the network of a host as reported: the host's devices, their connections, and the VMs attached to
// them.
type HostTopology struct {
	Host       fleet.HostView
	Networks   []fleet.NetworkView  // each with only this host's status
	VMs        []fleet.VMView       // at most TopologyVMs: VMs that need attention first
	Discovered []fleet.DiscoveredVM // unmanaged VMs, as far as the bounds allow
	More       int                  // VMs left out, managed or not
}

// NetworkTopology is a network with its hosts' devices and its VMs. Users who may not see hosts get only the VMs.
type NetworkTopology struct {
	Network   fleet.NetworkView
	Hosts     []fleet.NetworkHost // at most TopologyHosts: hosts that need attention first
	Devices   map[fleet.HostID]HostNetworkDevices
	MoreHosts int
	VMs       []fleet.VMView // at most TopologyVMs: VMs that need attention first
	More      int            // VMs left out
	Further   bool           // there are further VMs, which are not counted
}

// HostNetworkDevices are a host's network devices as reported.
type HostNetworkDevices struct {
	NICs    []fleet.HostNIC
	Current bool // the report is current and includes the ports of bridges and bonds
}

// NetworkGrid is the matrix of networks and hosts.
type NetworkGrid struct {
	Hosts    fleet.Page[fleet.HostView]
	Networks fleet.Page[fleet.NetworkView]
	Statuses map[NetworkOnHost]NetworkHostStatus // for hosts that have the network or are assigned to it
}

// NetworkOnHost identifies a network on one host.
type NetworkOnHost struct {
	Network fleet.NetworkID
	Host    fleet.HostID
}

// NetworkHostStatus is the status of a network on a host.
type NetworkHostStatus struct {
	State   fleet.NetworkState
	Leaving bool
}
