package mock

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"quantix/internal/fleet"
)

// guestAddress returns the guest's address on the NIC and the sources of the address. The caller holds h.mu.
func (h *Host) guestAddress(n fleet.NIC) (string, []fleet.AddressSource) {
	a := hashText(n.MAC)
	if n.Bridge != "" {
		return fmt.Sprintf("10.20.%d.%d", byte(a>>8), 2+byte(a)%250), []fleet.AddressSource{fleet.FromAgent, fleet.FromARP}
	}
	if net := h.networks[n.Network]; net != nil && net.live.IPv4 != nil {
		if ip, leased := net.dhcpAddress(n.MAC); leased {
			return ip, []fleet.AddressSource{fleet.FromAgent, fleet.FromLease}
		}
		first := net.live.IPv4.Prefix().Addr().Next().Next()
		return first.String(), []fleet.AddressSource{fleet.FromARP}
	}
	return fmt.Sprintf("192.168.122.%d", 2+byte(a)%250), []fleet.AddressSource{fleet.FromAgent, fleet.FromLease}
}

// dhcpAddress returns the DHCP address of a NIC: the reserved address, or else one of the DHCP ranges.
func (n *network) dhcpAddress(mac string) (string, bool) {
	dhcp := n.live.IPv4.DHCP
	if dhcp == nil {
		return "", false
	}
	for _, l := range dhcp.Leases {
		if l.MAC == mac {
			return l.IP, true
		}
	}
	if len(dhcp.Ranges) == 0 {
		return "", false
	}
	ip, err := netip.ParseAddr(dhcp.Ranges[0].Start)
	last, err2 := netip.ParseAddr(dhcp.Ranges[0].End)
	if err != nil || err2 != nil {
		return "", false
	}
	for range hashText(mac) % 32 {
		if next := ip.Next(); !last.Less(next) {
			ip = next
		}
	}
	kept := func(l fleet.StaticLease) bool { return l.IP == ip.String() }
	for slices.ContainsFunc(dhcp.Leases, kept) && ip.Less(last) {
		ip = ip.Next()
	}
	return ip.String(), true
}

// leases returns the DHCP leases of running guests on the network. The caller holds h.mu.
func (h *Host) leases(network string) (out []fleet.DHCPLease) {
	for _, g := range h.guests {
		if !g.isRunning() {
			continue
		}
		for _, n := range g.live.spec.NICs {
			if ip, by := h.guestAddress(n); n.Network == network && slices.Contains(by, fleet.FromLease) {
				out = append(out, fleet.DHCPLease{MAC: n.MAC, IP: ip, Name: g.name})
			}
		}
	}
	slices.SortFunc(out, func(a, b fleet.DHCPLease) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.MAC, b.MAC)) })
	return out
}

// Reservations returns the DHCP reservations of the running network, each "MAC address".
func (h *Host) Reservations(network string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.networks[network]; n != nil && n.live.IPv4 != nil && n.live.IPv4.DHCP != nil {
		for _, l := range n.live.IPv4.DHCP.Leases {
			out = append(out, l.MAC+" "+l.IP)
		}
	}
	return out
}

// DropReservations removes all reservations from the running network, like virsh net-update --live.
func (h *Host) DropReservations(name string) {
	h.changeNetwork(name, func(n *network) {
		v4, dhcp := *n.live.IPv4, *n.live.IPv4.DHCP
		dhcp.Leases = nil
		v4.DHCP, n.live.IPv4 = &dhcp, &v4
	})
}

// PortGroups returns the port groups of the running network.
func (h *Host) PortGroups(network string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.networks[network]; n != nil {
		for _, g := range n.live.PortGroups {
			out = append(out, g.Name)
		}
	}
	return out
}
