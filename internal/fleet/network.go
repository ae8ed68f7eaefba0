package fleet

import "time"

// NetworkKind is "libvirt" (a libvirt network) or "bridge" (a bridge device of the host).
type NetworkKind string

const (
	NetworkLibvirt NetworkKind = "libvirt"
	NetworkBridge  NetworkKind = "bridge"
)

// Network is a network name that NICs can be put on. Networks are found on hosts; hosts with the same kind and name share one row.
type Network struct {
	ID         NetworkID   `json:"id"`
	Name       string      `json:"name"`
	Kind       NetworkKind `json:"kind"`
	Generation int64       `json:"generation"`
	CreatedAt  time.Time   `json:"createdAt"`
}

// NetworkStatus is what one host's agent says about a network.
type NetworkStatus struct {
	Active    bool     `json:"active"`
	Autostart bool     `json:"autostart,omitempty"`
	Bridge    string   `json:"bridge,omitempty"`  // the device behind a libvirt network
	Forward   string   `json:"forward,omitempty"` // "nat", "route", "bridge", "" (isolated)
	Subnets   []string `json:"subnets,omitempty"` // "192.168.122.0/24"
	Error     string   `json:"error,omitempty"`
}

// NetworkHost is one cell of a network's host matrix.
type NetworkHost struct {
	NetworkID NetworkID      `json:"networkId"`
	HostID    HostID         `json:"hostId"`
	HostName  string         `json:"hostName"`
	Status    *NetworkStatus `json:"status"`
	SeenAt    *time.Time     `json:"seenAt"`
}

// NetworkView is a network as people see it.
type NetworkView struct {
	Network
	Restricted bool           `json:"restricted"` // it leads out of the host: VMs of a project come onto it only by a grant
	Grants     []NetworkGrant `json:"grants"`     // those that the person may know of
	Hosts      []NetworkHost  `json:"hosts"`
}

// NetworkGrant opens a restricted network to the VMs of a project.
type NetworkGrant struct {
	ProjectID   ProjectID `json:"projectId"` // empty: all projects
	ProjectName string    `json:"projectName"`
}

// Healthy counts the hosts that say it is active and are still believed.
func (v NetworkView) Healthy(now time.Time) int {
	n := 0
	for _, h := range v.Hosts {
		if h.Status != nil && h.Status.Active && Fresh(h.SeenAt, now) {
			n++
		}
	}
	return n
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
	if kind == NetworkBridge {
		return NIC{NetworkID: id, Bridge: name, MAC: n.MAC}
	}
	return NIC{NetworkID: id, Network: name, MAC: n.MAC}
}
