package fleet

import "time"

// NetworkKind is "libvirt" (a libvirt network) or "bridge" (a bridge device of the host).
type NetworkKind string

const (
	NetworkLibvirt NetworkKind = "libvirt"
	NetworkBridge  NetworkKind = "bridge"
)

// Network is a network name that NICs can be put on. One that is defined here has a spec, and its id is its UUID in libvirt on every host
// that it is assigned to. Others are found on hosts; hosts with the same kind and name share one row.
type Network struct {
	ID         NetworkID    `json:"id"`
	Name       string       `json:"name"`
	Kind       NetworkKind  `json:"kind"`
	Spec       *NetworkSpec `json:"spec,omitempty"` // nil: it was found
	Generation int64        `json:"generation"`
	Peers      []string     `json:"peers,omitempty"` // of an overlay: the addresses by which its hosts take its packets, as they say
	CreatedAt  time.Time    `json:"createdAt"`
	DeletedAt  *time.Time   `json:"deletedAt,omitempty"` // set: deletion is asked for; the network goes when the last of its hosts has released it
}

// NetworkStatus is what one host's agent says about a network.
type NetworkStatus struct {
	Active    bool     `json:"active"`
	Autostart bool     `json:"autostart,omitempty"`
	Bridge    string   `json:"bridge,omitempty"`   // the device behind a libvirt network
	Forward   string   `json:"forward,omitempty"`  // "nat", "route", "bridge", "" (isolated)
	Subnets   []string `json:"subnets,omitempty"`  // "192.168.122.0/24"
	Error     string   `json:"error,omitempty"`    // what is wrong with it, active or not: libvirt's own words where there are any
	ByOthers  bool     `json:"byOthers,omitempty"` // inactive: somebody stopped it on the host, Quantix did not
	Foreign   bool     `json:"foreign,omitempty"`  // it has the name of one that is defined here, and is another: portals say so, no agent does

	Uplink string `json:"uplink,omitempty"` // the device of the host that leads out of it
	VTEP   string `json:"vtep,omitempty"`   // the address by which this host takes an overlay's packets
	Peers  int    `json:"peers,omitempty"`  // how many other hosts it sends an overlay's packets to
	MTU    int    `json:"mtu,omitempty"`    // of the bridge: guests' packets must not be larger
	// RolledBack is when the host undid its newest change, because the portal was not reached through it. It is not tried again by itself.
	RolledBack *time.Time   `json:"rolledBack,omitempty"`
	NICs       *NetworkNICs `json:"cards,omitempty"`  // where each card on it takes something of the host for itself
	Leases     []DHCPLease  `json:"leases,omitempty"` // that its DHCP server has given out, where it is assigned to the host
}

// NetworkHost is one cell of a network's host matrix.
type NetworkHost struct {
	NetworkID NetworkID      `json:"networkId"`
	HostID    HostID         `json:"hostId"`
	HostName  string         `json:"hostName"`
	Status    *NetworkStatus `json:"status"`
	SeenAt    *time.Time     `json:"seenAt"`
	State     NetworkState   `json:"state"`             // derived: stale is unknown
	Assigned  bool           `json:"assigned"`          // people gave it to the host
	Leaving   bool           `json:"leaving,omitempty"` // release is asked for, the host has not yet done it
	Day       Day            `json:"day,omitempty"`     // on pages of one network
	VMs       int            `json:"vms,omitempty"`     // where it is not well: VMs there with a card on it
}

// NetworkView is a network as people see it.
type NetworkView struct {
	Network
	Restricted bool           `json:"restricted"` // it leads out of the host: VMs of a project come onto it only by a grant
	Grants     []NetworkGrant `json:"grants"`     // those that the person may know of
	Health     NetworkHealth  `json:"health"`
	Hosts      []NetworkHost  `json:"hosts"` // at most HostStatusesListed: those first that want a person, then by name
}

// NetworkHealth is a network's aggregate over its hosts.
type NetworkHealth struct {
	Hosts          int            `json:"hosts"`
	Active         int            `json:"active"` // hosts that say so and are still believed
	SeverityCounts SeverityCounts `json:"tones"`
	Forwards       []string       `json:"forwards,omitempty"` // the different modes that hosts report, a few of them
	Subnets        []string       `json:"subnets,omitempty"`  // likewise
}

// NetworkState is the state of a network on one host.
type NetworkState string

const (
	NetworkPending  NetworkState = "pending" // the host has said nothing of it
	NetworkActive   NetworkState = "active"
	NetworkInactive NetworkState = "inactive"
	NetworkFailed   NetworkState = "failed"
	NetworkUnknown  NetworkState = "unknown" // the host is not heard
)

// StateAt derives the cell's state from the last report and its age.
func (h NetworkHost) StateAt(now time.Time) NetworkState {
	var said NetworkState
	switch {
	case h.Status == nil:
		return NetworkStateOf("", false, Fresh(h.SeenAt, now))
	case h.Status.Active:
		said = NetworkActive
	default:
		said = NetworkInactive
	}
	return NetworkStateOf(said, h.Status.Error != "", Fresh(h.SeenAt, now))
}

// NetworkStateOf is a cell's state by what its host said last (active, inactive or nothing), whether it spoke of an error, and whether that
// is still believed.
func NetworkStateOf(said NetworkState, faulty, fresh bool) NetworkState {
	switch {
	case !fresh:
		return NetworkUnknown
	case said == "":
		return NetworkPending
	case faulty:
		return NetworkFailed
	}
	return said
}

// Severity is how the state is counted.
func (s NetworkState) Severity() Severity {
	switch s {
	case NetworkUnknown:
		return SeverityUnknown
	case NetworkFailed:
		return SeverityBad
	case NetworkActive:
		return SeverityOK
	}
	return SeverityWarn
}

// NetworkGrant opens a restricted network to the VMs of a project.
type NetworkGrant struct {
	ProjectID   ProjectID `json:"projectId"` // empty: all projects
	ProjectName string    `json:"projectName"`
}

// On is the kind and name of the card's network; no name where only its id is known.
func (n NIC) On() (NetworkKind, string) {
	if n.Bridge != "" {
		return NetworkBridge, n.Bridge
	}
	return NetworkLibvirt, n.Network
}

// Onto is the card on a network.
func (n NIC) Onto(id NetworkID, kind NetworkKind, name string) NIC {
	n.NetworkID, n.Network, n.Bridge = id, name, ""
	if kind == NetworkBridge {
		n.Network, n.Bridge = "", name
	}
	return n
}
