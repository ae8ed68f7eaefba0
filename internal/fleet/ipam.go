package fleet

import "time"

// NetworkAddresses is what is known of the addresses of a network that is defined here. On each of its hosts it is a network of its own, so
// that one address may be in use once on each.
type NetworkAddresses struct {
	Ranges       []RangeUse        `json:"ranges"` // that DHCP gives out
	Reservations []ReservedAddress `json:"reservations"`
	InUse        []AddressInUse    `json:"inUse"` // by host and address
	Conflicts    []AddressConflict `json:"conflicts"`
	Next         string            `json:"next,omitempty"` // the first IPv4 address that nobody has, outside of the ranges where there is one
	More         bool              `json:"more,omitempty"` // not all cards were looked at: name a host to see all of its
}

// RangeUse is a range, and how much of it is given out where it is fullest.
type RangeUse struct {
	AddressRange
	Size     int64  `json:"size"`
	Used     int    `json:"used"`
	HostName string `json:"hostName,omitempty"` // where it is fullest
	Reserved int    `json:"reserved"`           // addresses in it that are kept for cards
}

// ReservedAddress is an address that DHCP keeps for a card, and whose that is.
type ReservedAddress struct {
	StaticLease
	VMID    VMID   `json:"vmId,omitempty"` // empty: no VM has the card
	VMName  string `json:"vmName,omitempty"`
	InRange bool   `json:"inRange"` // of one that DHCP gives out: nobody else gets it, and the range has one less
}

// AddressInUse is an address that a card has on one host.
type AddressInUse struct {
	IP       string          `json:"ip"`
	MAC      string          `json:"mac"`
	HostID   HostID          `json:"hostId"`
	HostName string          `json:"hostName"`
	VMID     VMID            `json:"vmId,omitempty"` // empty: no VM of Quantix
	VMName   string          `json:"vmName,omitempty"`
	Name     string          `json:"name,omitempty"` // as the guest calls itself to DHCP
	By       []AddressSource `json:"by"`
	Reserved bool            `json:"reserved"`
	SeenAt   *time.Time      `json:"seenAt"`            // when the host looked
	Unknown  bool            `json:"unknown,omitempty"` // the host is not heard: it was so
}

// AddressConflict is something about addresses that wants a person.
type AddressConflict struct {
	Kind     ConflictKind `json:"kind"`
	IP       string       `json:"ip,omitempty"`
	MAC      string       `json:"mac,omitempty"`
	HostName string       `json:"hostName,omitempty"` // where; empty: wherever the network is
	Text     string       `json:"text"`               // a sentence for people
}

// ConflictKind says what is wrong.
type ConflictKind string

const (
	ConflictTwice    ConflictKind = "twice"    // two cards have one address on one host
	ConflictReserved ConflictKind = "reserved" // another card has an address that is reserved
	ConflictAstray   ConflictKind = "astray"   // a card does not have what is reserved for it
	ConflictGateway  ConflictKind = "gateway"  // a guest has the hosts' own address
	ConflictInRange  ConflictKind = "inRange"  // a guest took an address of a range by itself: DHCP may give it to another
	ConflictMAC      ConflictKind = "mac"      // two machines have one MAC address
)
