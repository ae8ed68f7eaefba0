package fleet

// Bounds of topology diagrams. Diagrams count the objects beyond the bounds and link to their list.
const (
	TopologyVMs   = 40  // VMs shown in one diagram
	TopologyRead  = 200 // VMs read for one diagram; VMs that need attention come first
	TopologyHosts = 20  // hosts of one network
)

// HostTopology is the network of a host as reported: the host's devices, their connections, and the VMs attached to
// them.
type HostTopology struct {
	Host       HostView
	Networks   []NetworkView  // each with only this host's status
	VMs        []VMView       // at most TopologyVMs: VMs that need attention first
	Discovered []DiscoveredVM // unmanaged VMs, as far as the bounds allow
	More       int            // VMs left out, managed or not
}

// NetworkTopology is a network with its hosts' devices and its VMs. Users who may not see hosts get only the VMs.
type NetworkTopology struct {
	Network   NetworkView
	Hosts     []NetworkHost // at most TopologyHosts: hosts that need attention first
	Devices   map[HostID]HostNetworkDevices
	MoreHosts int
	VMs       []VMView // at most TopologyVMs: VMs that need attention first
	More      int      // VMs left out
	Further   bool     // there are further VMs, which are not counted
}

// HostNetworkDevices are a host's network devices as reported.
type HostNetworkDevices struct {
	NICs    []HostNIC
	Current bool // the report is current and includes the ports of bridges and bonds
}

// NetworkGrid is the matrix of networks and hosts.
type NetworkGrid struct {
	Hosts    Page[HostView]
	Networks Page[NetworkView]
	Statuses map[NetworkOnHost]NetworkHostStatus // for hosts that have the network or are assigned to it
}

// NetworkOnHost identifies a network on one host.
type NetworkOnHost struct {
	Network NetworkID
	Host    HostID
}

// NetworkHostStatus is the status of a network on a host.
type NetworkHostStatus struct {
	State   NetworkState
	Leaving bool
}
