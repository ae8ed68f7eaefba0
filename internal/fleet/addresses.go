package fleet

import "time"

// AddressSource is how a host knows an address of a card.
type AddressSource string

const (
	FromAgent AddressSource = "agent" // the guest's agent says so
	FromLease AddressSource = "lease" // the host's DHCP server gave it
	FromARP   AddressSource = "arp"   // the host has heard it
)

// Word is the source for people.
func (s AddressSource) Word() string {
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

// SeenAddress is an address of a card, and how the host knows of it.
type SeenAddress struct {
	IP string          `json:"ip"`
	By []AddressSource `json:"by"`
}

// DHCPLease is an address that a host's DHCP server has given out: of which network says where it stands.
type DHCPLease struct {
	MAC  string `json:"mac"`
	IP   string `json:"ip"`
	Name string `json:"name,omitempty"` // as the guest calls itself
}

// NICAddresses is all that is known of one card of a VM.
type NICAddresses struct {
	MAC       string        `json:"mac"`
	NetworkID NetworkID     `json:"networkId,omitempty"`
	Network   string        `json:"network"` // its name
	Seen      []SeenAddress `json:"seen"`
	SeenAt    *time.Time    `json:"seenAt"` // when the host looked
	Unknown   bool          `json:"unknown,omitempty"`
	Reserved  string        `json:"reserved,omitempty"` // the address that the network keeps for it
	Reserves  bool          `json:"reserves"`           // the network can keep one
	WhyNot    string        `json:"whyNot,omitempty"`   // why it cannot
	Others    []MACHolder   `json:"others,omitempty"`   // other machines with this MAC address
}

// MACHolder is another machine that has a card's MAC address; without names to those who do not see hosts.
type MACHolder struct {
	VMID     VMID   `json:"vmId,omitempty"` // empty: Quantix did not make it
	Name     string `json:"name,omitempty"`
	HostName string `json:"hostName,omitempty"`
}
