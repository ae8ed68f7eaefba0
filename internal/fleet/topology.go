package fleet

// Bounds of pictures of networks: what is beyond them is counted, and led to.
const (
	TopologyVMs   = 40  // that one picture shows
	TopologyRead  = 200 // of which those that want a person are chosen
	TopologyHosts = 20  // of one network
)

// HostTopology is what a host's network is made of, as the host says: its devices, what they are joined to, and the VMs behind.
type HostTopology struct {
	Host       HostView
	Networks   []NetworkView  // each with this host's cell alone
	VMs        []VMView       // at most TopologyVMs: those that want a person first
	Discovered []DiscoveredVM // domains that Quantix did not make, where there is room for them
	More       int            // VMs and domains that are not among them
}

// NetworkTopology is a network between its hosts' devices and its VMs. Who does not see hosts gets the VMs alone.
type NetworkTopology struct {
	Network   NetworkView
	Hosts     []NetworkHost // at most TopologyHosts: those that want a person first
	Devices   map[HostID]HostDevices
	MoreHosts int
	VMs       []VMView // at most TopologyVMs: likewise
	More      int      // VMs that are not among them
	Further   bool     // there are yet more, which nobody counted
}

// HostDevices are a host's network devices as it says.
type HostDevices struct {
	NICs   []HostNIC
	Looked bool // they are of the host's last look, with their ports
}

// NetworkGrid is how many networks are on many hosts.
type NetworkGrid struct {
	Hosts    Page[HostView]
	Networks Page[NetworkView]
	Statuses map[NetworkOn]NetworkHostStatus // where a host has the network, or shall have it
}

// NetworkOn is a network's place on a host.
type NetworkOn struct {
	Network NetworkID
	Host    HostID
}

// NetworkHostStatus is how a network is on a host.
type NetworkHostStatus struct {
	State   NetworkState
	Leaving bool
}
