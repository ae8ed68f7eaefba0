package policy

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/ipam"
)

// ReportingHost is a host and the time of its report.
type ReportingHost struct {
	ID     fleet.HostID
	Name   string
	SeenAt *fleet.ReportTime
	Fresh  bool
}

// AddressNIC is a VM's NIC on the network, with the addresses that its host reports.
type AddressNIC struct {
	Host   ReportingHost
	VMID   fleet.VMID
	VMName string
	MAC    string
	Seen   []fleet.SeenAddress
}

// AddressLease is an active lease of a host's DHCP server.
type AddressLease struct {
	Host ReportingHost
	fleet.DHCPLease
}

// MACHolder is a machine with a MAC address. VMID is empty for an unmanaged machine.
type MACHolder struct {
	MAC string
	fleet.MACHolder
}

// MergeNetworkAddresses lists a network's addresses in use, its reservations, ranges and conflicts. Reports of offline hosts are
// listed but cause no conflict.
func MergeNetworkAddresses(spec fleet.NetworkSpec, nics []AddressNIC, leases []AddressLease, holders []MACHolder) ipam.Usage {
	b := addressMerge{spec: spec, nics: nics, merged: ipam.Usage{Ranges: []ipam.Range{}, Reservations: []ipam.Reservation{}, InUse: []ipam.Address{}, Conflicts: []ipam.Conflict{}}}
	b.addReservations()
	b.addAddressesInUse(leases)
	b.addDHCPRanges()
	b.addIPConflicts(holders)
	b.merged.Next = b.nextFreeIPv4()
	return b.merged
}

type addressMerge struct {
	spec       fleet.NetworkSpec
	nics       []AddressNIC
	reserved   map[string]fleet.StaticLease // reservations by IP address
	reservedIP map[string]string            // reserved address by MAC
	merged     ipam.Usage
}

func (b *addressMerge) dhcpSettings() (out []fleet.DHCP) {
	for _, s := range []*fleet.Subnet{b.spec.IPv4, b.spec.IPv6} {
		if s != nil && s.DHCP != nil {
			out = append(out, *s.DHCP)
		}
	}
	return out
}

func (b *addressMerge) addReservations() {
	b.reserved, b.reservedIP = map[string]fleet.StaticLease{}, map[string]string{}
	of := map[string]AddressNIC{}
	for _, c := range b.nics {
		of[c.MAC] = c
	}
	for _, d := range b.dhcpSettings() {
		for _, l := range d.Leases {
			b.reserved[canonicalIP(l.IP)], b.reservedIP[l.MAC] = l, canonicalIP(l.IP)
			c := of[l.MAC]
			b.merged.Reservations = append(b.merged.Reservations, ipam.Reservation{StaticLease: l, VMID: c.VMID, VMName: c.VMName, InRange: b.inDHCPRange(l.IP)})
		}
	}
	slices.SortFunc(b.merged.Reservations, func(x, y ipam.Reservation) int { return compareIPs(x.IP, y.IP) })
}

// addAddressesInUse merges addresses of NICs and leases: one entry for each host, address and MAC.
func (b *addressMerge) addAddressesInUse(leases []AddressLease) {
	type key struct {
		host    fleet.HostID
		ip, mac string
	}
	at, vms := map[key]int{}, map[string]AddressNIC{}
	add := func(h ReportingHost, ip, mac string, by ...fleet.AddressSource) *ipam.Address {
		k := key{h.ID, canonicalIP(ip), mac}
		i, known := at[k]
		if !known {
			i = len(b.merged.InUse)
			at[k] = i
			_, reserved := b.reserved[k.ip]
			b.merged.InUse = append(b.merged.InUse, ipam.Address{IP: k.ip, MAC: mac, HostID: h.ID, HostName: h.Name, SeenAt: h.SeenAt, Unknown: !h.Fresh, By: []fleet.AddressSource{}, Reserved: reserved})
		}
		u := &b.merged.InUse[i]
		for _, s := range by {
			if !slices.Contains(u.By, s) {
				u.By = append(u.By, s)
			}
		}
		if c, ok := vms[mac]; ok && c.Host.ID == h.ID {
			u.VMID, u.VMName = c.VMID, c.VMName
		}
		return u
	}
	for _, c := range b.nics {
		vms[c.MAC] = c
	}
	for _, c := range b.nics {
		for _, s := range c.Seen {
			if b.inSubnets(s.IP) {
				add(c.Host, s.IP, c.MAC, s.By...)
			}
		}
	}
	for _, l := range leases {
		if b.inSubnets(l.IP) {
			add(l.Host, l.IP, l.MAC, fleet.FromLease).Name = l.Name
		}
	}
	slices.SortFunc(b.merged.InUse, func(x, y ipam.Address) int {
		return cmp.Or(cmp.Compare(x.HostName, y.HostName), compareIPs(x.IP, y.IP), cmp.Compare(x.MAC, y.MAC))
	})
}

func (b *addressMerge) addDHCPRanges() {
	for _, d := range b.dhcpSettings() {
		for _, r := range d.Ranges {
			use := ipam.Range{AddressRange: r, Size: rangeSize(r)}
			for ip := range b.reserved {
				if containsIP(r, ip) {
					use.Reserved++
				}
			}
			inUseIPs := map[string]map[string]bool{}
			for _, u := range b.merged.InUse {
				if !u.Unknown && containsIP(r, u.IP) {
					if inUseIPs[u.HostName] == nil {
						inUseIPs[u.HostName] = map[string]bool{}
					}
					inUseIPs[u.HostName][u.IP] = true
				}
			}
			for host, ips := range inUseIPs {
				if len(ips) > use.Used || len(ips) == use.Used && host < use.HostName {
					use.Used, use.HostName = len(ips), host
				}
			}
			b.merged.Ranges = append(b.merged.Ranges, use)
		}
	}
}

func (b *addressMerge) addIPConflicts(holders []MACHolder) {
	add := func(kind ipam.ConflictKind, u ipam.Address, format string, args ...any) {
		b.merged.Conflicts = append(b.merged.Conflicts, ipam.Conflict{Kind: kind, IP: u.IP, MAC: u.MAC, HostName: u.HostName, Text: fmt.Sprintf(format, args...)})
	}
	gateways := map[string]bool{}
	for _, s := range []*fleet.Subnet{b.spec.IPv4, b.spec.IPv6} {
		if s != nil {
			if p, err := netip.ParsePrefix(s.Gateway); err == nil {
				gateways[p.Addr().String()] = true
			}
		}
	}
	for i, u := range b.merged.InUse {
		if u.Unknown {
			continue
		}
		if i > 0 && b.merged.InUse[i-1].IP == u.IP && b.merged.InUse[i-1].HostID == u.HostID {
			add(ipam.ConflictDuplicate, u, "On %s both %s and %s have %s. One of them must get another address.", u.HostName, addressHolderName(b.merged.InUse[i-1]), addressHolderName(u), u.IP)
		}
		owner, reserved := b.reserved[u.IP]
		leased := slices.Contains(u.By, fleet.FromLease)
		switch {
		case gateways[u.IP]:
			add(ipam.ConflictGateway, u, "%s on %s has %s, the network's gateway address: other guests on this host lose their gateway. Give this machine another address.", addressHolderName(u), u.HostName, u.IP)
		case reserved && owner.MAC != u.MAC:
			add(ipam.ConflictReserved, u, "%s on %s has %s, which is reserved for %s. Wait until the lease ends, or give this machine another address.", addressHolderName(u), u.HostName, u.IP, owner.MAC)
		case !reserved && !leased && len(u.By) > 0 && b.inDHCPRange(u.IP):
			add(ipam.ConflictInRange, u, "%s on %s uses %s without a lease, and DHCP may assign this address to another guest. Reserve the address, or use one outside the DHCP ranges.", addressHolderName(u), u.HostName, u.IP)
		}
		if reservedFor, ok := b.reservedIP[u.MAC]; ok && reservedFor != u.IP && sameFamily(reservedFor, u.IP) && !b.isAddressInUseBy(u.HostID, u.MAC, reservedFor) {
			add(ipam.ConflictUnusedReservation, u, "%s on %s has %s, but %s is reserved for this machine. Restart the guest's network, or wait until the lease ends.", addressHolderName(u), u.HostName, u.IP, reservedFor)
		}
	}
	b.addMACConflicts(holders)
}

// addMACConflicts adds a conflict for each NIC whose MAC address another machine has.
func (b *addressMerge) addMACConflicts(holders []MACHolder) {
	by := map[string][]MACHolder{}
	for _, h := range holders {
		by[h.MAC] = append(by[h.MAC], h)
	}
	for _, c := range b.nics {
		for _, h := range by[c.MAC] {
			if h.VMID == c.VMID {
				continue
			}
			made := ""
			if h.VMID == "" {
				made = ", which Quantix did not create,"
			}
			b.merged.Conflicts = append(b.merged.Conflicts, ipam.Conflict{
				Kind: ipam.ConflictMAC, MAC: c.MAC, HostName: h.HostName,
				Text: fmt.Sprintf("%s on %s%s has the MAC address %s of %s on %s. Give one of them another NIC.", h.Name, h.HostName, made, c.MAC, c.VMName, c.Host.Name),
			})
		}
	}
}

func (b *addressMerge) isAddressInUseBy(host fleet.HostID, mac, ip string) bool {
	return slices.ContainsFunc(b.merged.InUse, func(u ipam.Address) bool { return u.HostID == host && u.MAC == mac && u.IP == ip })
}

// maxSearchedAddresses is the largest number of addresses that nextFreeIPv4 tries.
const maxSearchedAddresses = 1 << 16

// nextFreeIPv4 returns the first free IPv4 address, preferably outside the DHCP ranges.
func (b *addressMerge) nextFreeIPv4() string {
	prefix := b.spec.IPv4.Prefix()
	if !prefix.IsValid() {
		return ""
	}
	taken := map[string]bool{}
	if gateway, err := netip.ParsePrefix(b.spec.IPv4.Gateway); err == nil {
		taken[gateway.Addr().String()] = true
	}
	for ip := range b.reserved {
		taken[ip] = true
	}
	for _, u := range b.merged.InUse {
		taken[u.IP] = true
	}
	second := ""
	ip := prefix.Addr().Next()
	for range maxSearchedAddresses {
		after := ip.Next()
		if !prefix.Contains(after) { // the last address is the broadcast address
			break
		}
		switch text := ip.String(); {
		case taken[text]:
		case !b.inDHCPRange(text):
			return text
		case second == "":
			second = text
		}
		ip = after
	}
	return second
}

func (b *addressMerge) inSubnets(ip string) bool {
	a, err := netip.ParseAddr(ip)
	return err == nil && slices.ContainsFunc(b.spec.Prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

func (b *addressMerge) inDHCPRange(ip string) bool {
	for _, d := range b.dhcpSettings() {
		if slices.ContainsFunc(d.Ranges, func(r fleet.AddressRange) bool { return containsIP(r, ip) }) {
			return true
		}
	}
	return false
}

func containsIP(r fleet.AddressRange, ip string) bool {
	from, err := netip.ParseAddr(r.Start)
	to, err2 := netip.ParseAddr(r.End)
	a, err3 := netip.ParseAddr(ip)
	return err == nil && err2 == nil && err3 == nil && a.BitLen() == from.BitLen() && !a.Less(from) && !to.Less(a)
}

// rangeSize returns the number of addresses in the range, at most MaxInt64.
func rangeSize(r fleet.AddressRange) int64 {
	from, err := netip.ParseAddr(r.Start)
	to, err2 := netip.ParseAddr(r.End)
	if err != nil || err2 != nil || to.Less(from) {
		return 0
	}
	size := int64(0)
	a, z := from.As16(), to.As16()
	for i := range a {
		if size > math.MaxInt64>>9 {
			return math.MaxInt64
		}
		size = size<<8 + int64(z[i]) - int64(a[i])
	}
	return size + 1
}

// addressHolderName names the machine with the address.
func addressHolderName(u ipam.Address) string {
	if u.VMName != "" {
		return u.VMName + " (" + u.MAC + ")"
	}
	if u.Name != "" {
		return "a machine with the host name " + u.Name + " (" + u.MAC + ")"
	}
	return u.MAC
}

func canonicalIP(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.String()
	}
	return text
}

func sameFamily(a, b string) bool { return strings.Contains(a, ":") == strings.Contains(b, ":") }

func compareIPs(a, b string) int {
	x, err := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	if err != nil || err2 != nil {
		return cmp.Compare(a, b)
	}
	return x.Compare(y)
}
