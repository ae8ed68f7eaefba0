package fleet

import "time"

// NetworkKind is "libvirt" (a libvirt network) or "bridge" (a bridge device of the host).
type NetworkKind string

const (
	NetworkLibvirt NetworkKind = "libvirt"
	NetworkBridge  NetworkKind = "bridge"
)

// Network is a network that NICs connect to. A managed network has a Spec, and its ID is its libvirt UUID on every
// assigned host. An unmanaged network was discovered on hosts: one row represents all networks of the same kind and
// name.
type Network struct {
	ID         NetworkID    `json:"id"`
	Name       string       `json:"name"`
	Kind       NetworkKind  `json:"kind"`
	Spec       *NetworkSpec `json:"spec,omitempty"` // nil: the network is unmanaged
	Generation int64        `json:"generation"`
	Peers      []string     `json:"peers,omitempty"` // for an overlay: tunnel addresses of its hosts, as they report them
	CreatedAt  time.Time    `json:"createdAt"`
	// DeletedAt is set once deletion was requested. The network is removed when its last host has released it.
	DeletedAt *time.Time `json:"deletedAt,omitempty"`
}

// NetworkStatus is one host's report on a network.
type NetworkStatus struct {
	Active    bool     `json:"active"`
	Autostart bool     `json:"autostart,omitempty"`
	Bridge    string   `json:"bridge,omitempty"`  // bridge device of a libvirt network
	Forward   string   `json:"forward,omitempty"` // forward mode of a libvirt network: "nat", "route", "bridge"; empty: isolated
	Subnets   []string `json:"subnets,omitempty"` // "192.168.122.0/24"
	// Error: a problem, which an active network can have too; libvirt's own message if there is one
	Error          string `json:"error,omitempty"`
	StoppedOutside bool   `json:"byOthers,omitempty"` // the network is inactive because it was stopped on the host outside Quantix
	// NameTaken: the host has another network with the managed network's name; set by the portal, never by an agent
	NameTaken bool `json:"foreign,omitempty"`

	Uplink string `json:"uplink,omitempty"` // host device that connects the network to the outside
	VTEP   string `json:"vtep,omitempty"`   // tunnel address of this host for an overlay
	Peers  int    `json:"peers,omitempty"`  // number of other hosts that this host sends an overlay's packets to
	MTU    int    `json:"mtu,omitempty"`    // MTU of the bridge, which limits guests' packets
	// RolledBack is the time when the host rolled back its newest change because it lost the connection to the portal. The
	// host does not retry automatically.
	RolledBack *time.Time   `json:"rolledBack,omitempty"`
	NICs       *NetworkNICs `json:"nics,omitempty"`   // only for modes that need a host resource for each NIC: how many are in use
	Leases     []DHCPLease  `json:"leases,omitempty"` // leases given out by the network's DHCP server on an assigned host
	Drift      []Drift      `json:"drift,omitempty"`  // edits of an assigned network's definition
	// Definition is the host's own definition of a libvirt network that Quantix did not create
	Definition *HostNetworkDefinition `json:"definition,omitempty"`
}

// NetworkHost is the status of a network on one host.
type NetworkHost struct {
	NetworkID NetworkID      `json:"networkId"`
	HostID    HostID         `json:"hostId"`
	HostName  string         `json:"hostName"`
	Status    *NetworkStatus `json:"status"`
	SeenAt    *ReportTime    `json:"seenAt"`
	State     NetworkState   `json:"state"`             // derived: unknown if the report is stale
	Assigned  bool           `json:"assigned"`          // a user assigned the network to the host
	Releasing bool           `json:"leaving,omitempty"` // the release was requested and is not finished on the host
	Day       StatusHistory  `json:"day,omitempty"`     // 24-hour history; only on pages of one network
	VMs       int            `json:"vms,omitempty"`     // number of VMs on the host with a NIC on the network; only if the network has a problem there
}

// NetworkView is a network as the API and pages show it.
type NetworkView struct {
	Network
	// Restricted is always true: VMs of a project need a grant to use the network. API clients of older versions read it.
	Restricted bool           `json:"restricted"`
	Grants     []NetworkGrant `json:"grants"` // grants that the user may see
	Health     NetworkHealth  `json:"health"`
	Hosts      []NetworkHost  `json:"hosts"` // at most HostStatusesListed: hosts that need attention first, then by name
}

// NetworkHealth is the aggregate of a network's host statuses.
type NetworkHealth struct {
	Hosts          int            `json:"hosts"`
	Active         int            `json:"active"` // hosts with a fresh report that the network is active
	SeverityCounts SeverityCounts `json:"severityCounts"`
	Forwards       []string       `json:"forwards,omitempty"`    // different forward modes that hosts report, at most a few
	Subnets        []string       `json:"subnets,omitempty"`     // different subnets that hosts report, at most a few
	Drifted        int            `json:"drifted,omitempty"`     // online hosts with open drift; 0 for users who may not see hosts
	AffectedVMs    int            `json:"affectedVms,omitempty"` // as in PoolHealth
}

// NetworkState is the state of a network on one host.
type NetworkState string

const (
	NetworkPending  NetworkState = "pending" // the host has not reported on the network
	NetworkActive   NetworkState = "active"
	NetworkInactive NetworkState = "inactive"
	NetworkFailed   NetworkState = "failed"
	NetworkUnknown  NetworkState = "unknown" // the host is offline
)

// StateAt derives the state from the last report and its age.
func (h NetworkHost) StateAt(now time.Time) NetworkState {
	var reported NetworkState
	switch {
	case h.Status == nil:
		return DeriveNetworkState("", false, IsReportFresh(h.SeenAt, now))
	case h.Status.Active:
		reported = NetworkActive
	default:
		reported = NetworkInactive
	}
	return DeriveNetworkState(reported, h.Status.Error != "", IsReportFresh(h.SeenAt, now))
}

// DeriveNetworkState derives a network's state on one host. reported is the state in the last report (active, inactive or
// empty), faulty whether it had an error, and fresh whether it is recent enough.
func DeriveNetworkState(reported NetworkState, faulty, fresh bool) NetworkState {
	switch {
	case !fresh:
		return NetworkUnknown
	case reported == "":
		return NetworkPending
	case faulty:
		return NetworkFailed
	}
	return reported
}

// Severity returns the severity of the state in counts and on pages.
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

// NetworkKindAndName returns the kind and name of the NIC's network. The name is empty if the NIC has only the
// network's ID.
func (n NIC) NetworkKindAndName() (NetworkKind, string) {
	if n.Bridge != "" {
		return NetworkBridge, n.Bridge
	}
	return NetworkLibvirt, n.Network
}

// WithNetwork returns the NIC connected to another network.
func (n NIC) WithNetwork(id NetworkID, kind NetworkKind, name string) NIC {
	n.NetworkID, n.Network, n.Bridge = id, name, ""
	if kind == NetworkBridge {
		n.Network, n.Bridge = "", name
	}
	return n
}
