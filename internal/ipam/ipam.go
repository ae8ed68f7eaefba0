// Package ipam describes the IP addresses in use on a managed network: DHCP ranges, reservations and conflicts.
package ipam

import "quantix/internal/fleet"

// Usage is the address use of a managed network. Each host has a separate layer 2, so an address may be in
// use once per host.
type Usage struct {
	Ranges       []Range       `json:"ranges"` // DHCP ranges
	Reservations []Reservation `json:"reservations"`
	InUse        []Address     `json:"inUse"` // sorted by host and address
	Conflicts    []Conflict    `json:"conflicts"`
	Next         string        `json:"next,omitempty"` // first free IPv4 address, preferably outside the DHCP ranges
	// More: some NICs are left out because the network has too many; a request for one host returns all NICs of that host
	More bool `json:"more,omitempty"`
}

// Range is a DHCP range with its use on the host where most of its addresses are in use.
type Range struct {
	fleet.AddressRange
	Size     int64  `json:"size"`
	Used     int    `json:"used"`
	HostName string `json:"hostName,omitempty"` // host that uses the most addresses
	Reserved int    `json:"reserved"`           // reserved addresses in the range
}

// Reservation is a static lease with its VM.
type Reservation struct {
	fleet.StaticLease
	VMID    fleet.VMID `json:"vmId,omitempty"` // empty: no VM has the NIC
	VMName  string     `json:"vmName,omitempty"`
	InRange bool       `json:"inRange"` // inside a DHCP range, so the range has one address less for other NICs
}

// Address is an address of a NIC on one host.
type Address struct {
	IP       string                `json:"ip"`
	MAC      string                `json:"mac"`
	HostID   fleet.HostID          `json:"hostId"`
	HostName string                `json:"hostName"`
	VMID     fleet.VMID            `json:"vmId,omitempty"` // empty: an unmanaged VM
	VMName   string                `json:"vmName,omitempty"`
	Name     string                `json:"name,omitempty"` // host name that the guest sent to DHCP
	By       []fleet.AddressSource `json:"by"`
	Reserved bool                  `json:"reserved"`
	SeenAt   *fleet.ReportTime     `json:"seenAt"`            // time of the host's inventory
	Unknown  bool                  `json:"unknown,omitempty"` // the host is offline, so the data may be outdated
}

// Conflict is an address problem that needs attention.
type Conflict struct {
	Kind     ConflictKind `json:"kind"`
	IP       string       `json:"ip,omitempty"`
	MAC      string       `json:"mac,omitempty"`
	HostName string       `json:"hostName,omitempty"` // host of the conflict; empty: every host of the network
	Text     string       `json:"text"`               // the problem and its remedy, as a sentence
}

// ConflictKind is the kind of a Conflict.
type ConflictKind string

const (
	ConflictDuplicate         ConflictKind = "twice"    // two NICs use one address on one host
	ConflictReserved          ConflictKind = "reserved" // another NIC uses a reserved address
	ConflictUnusedReservation ConflictKind = "astray"   // a NIC has a reservation but uses another address
	ConflictGateway           ConflictKind = "gateway"  // a guest uses the gateway's address
	// ConflictInRange: a guest without a lease uses an address of a DHCP range, and DHCP may give the address to
	// another guest
	ConflictInRange ConflictKind = "inRange"
	ConflictMAC     ConflictKind = "mac" // two VMs use one MAC address
)
