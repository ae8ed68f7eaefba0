package fleet

// AddressSource is how a host learned an IP address of a NIC.
type AddressSource string

const (
	FromAgent AddressSource = "agent" // reported by the guest agent
	FromLease AddressSource = "lease" // given out by the host's DHCP server
	FromARP   AddressSource = "arp"   // seen by the host in ARP
)

// DisplayName returns the source as pages show it.
func (s AddressSource) DisplayName() string {
	switch s {
	case FromAgent:
		return "guest agent"
	case FromLease:
		return "DHCP lease"
	case FromARP:
		return "ARP"
	}
	return string(s)
}

// SeenAddress is an IP address of a NIC with its sources.
type SeenAddress struct {
	IP string          `json:"ip"`
	By []AddressSource `json:"by"`
}

// DHCPLease is an address given out by a host's DHCP server. The enclosing status names the network.
type DHCPLease struct {
	MAC  string `json:"mac"`
	IP   string `json:"ip"`
	Name string `json:"name,omitempty"` // host name that the guest sent
}

// NICAddresses holds the known addresses of one NIC of a VM.
type NICAddresses struct {
	MAC                  string        `json:"mac"`
	NetworkID            NetworkID     `json:"networkId,omitempty"`
	Network              string        `json:"network"` // name
	Seen                 []SeenAddress `json:"seen"`
	SeenAt               *ReportTime   `json:"seenAt"` // time of the host's inventory
	Unknown              bool          `json:"unknown,omitempty"`
	Reserved             string        `json:"reserved,omitempty"` // static lease of the NIC
	SupportsReservations bool          `json:"reserves"`           // the network supports static leases
	WhyNoReservations    string        `json:"whyNot,omitempty"`   // why the network does not support static leases
	Others               []MACHolder   `json:"others,omitempty"`   // other VMs with this MAC address
}

// MACHolder is another VM with a NIC's MAC address. Names are set only for users who may see hosts.
type MACHolder struct {
	VMID     VMID   `json:"vmId,omitempty"` // empty: an unmanaged VM
	Name     string `json:"name,omitempty"`
	HostName string `json:"hostName,omitempty"`
}
