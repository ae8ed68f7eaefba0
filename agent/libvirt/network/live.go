package network

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// maxLeases limits the reported DHCP leases of a network. No network of one host has more addresses in use.
const maxLeases = 1 << 10

// networkUpdate is one change of a running network.
type networkUpdate struct {
	command golibvirt.NetworkUpdateCommand
	section golibvirt.NetworkUpdateSection
	parent  int32
	xml     string
}

// updateNetwork applies the parts of the definition that libvirt can change without a restart to the running network.
func (ns *Networks) updateNetwork(ctx context.Context, c *conn.Conn, ref golibvirt.Network, n fleet.Network) error {
	live, groups, err := readNetworkXML(ctx, c, ref, 0)
	if err != nil {
		return err
	}
	for _, u := range append(networkUpdates(live, networkDefinition(n)), groups.updatesTo(portGroupsOf(n.Spec))...) {
		err := c.Do(ctx, func(l *golibvirt.Libvirt) error {
			return l.NetworkUpdateCompat(ref, u.command, u.section, u.parent, u.xml, golibvirt.NetworkUpdateAffectLive)
		})
		if err != nil {
			return fmt.Errorf("change the running network: %w", err)
		}
	}
	if len(n.Spec.PortGroups) == 0 {
		return nil
	}
	return ns.applyNICBandwidths(ctx, c, n)
}

// networkUpdates returns the changes from the live definition to the wanted definition. Deletions come first, because
// additions may need the deleted addresses.
func networkUpdates(live, want libvirtxml.Network) (out []networkUpdate) {
	for i, ip := range live.IPs {
		k := slices.IndexFunc(want.IPs, func(w libvirtxml.NetworkIP) bool { return subnetPrefix(w) == subnetPrefix(ip) })
		if k < 0 {
			continue
		}
		had, wanted := reservationsOf(ip), reservationsOf(want.IPs[k])
		for _, h := range had {
			if !slices.Contains(wanted, h) {
				out = append(out, reservationUpdate(golibvirt.NetworkUpdateCommandDelete, i, h))
			}
		}
		for _, h := range wanted {
			if !slices.Contains(had, h) {
				out = append(out, reservationUpdate(golibvirt.NetworkUpdateCommandAddLast, i, h))
			}
		}
	}
	return out
}

// dhcpReservation is a static DHCP address for a MAC address.
type dhcpReservation struct{ mac, ip, name string }

// reservationsOf returns the static DHCP addresses of a network's subnet.
func reservationsOf(ip libvirtxml.NetworkIP) (out []dhcpReservation) {
	if ip.DHCP == nil {
		return nil
	}
	for _, h := range ip.DHCP.Hosts {
		out = append(out, dhcpReservation{strings.ToLower(h.MAC), formatAddress(h.IP), h.Name})
	}
	return out
}

// reservationUpdate returns the update that adds or deletes a static DHCP address.
func reservationUpdate(command golibvirt.NetworkUpdateCommand, ip int, r dhcpReservation) networkUpdate {
	h := libvirtxml.NetworkDHCPHost{MAC: r.mac, IP: r.ip, Name: r.name}
	text, _ := h.Marshal() // Marshal cannot fail: h has string fields only
	return networkUpdate{command, golibvirt.NetworkSectionIPDhcpHost, int32(ip), text}
}

// leasesOf returns the network's DHCP leases, sorted by address. On an error it returns nil, because the network's
// status already reports the fault.
func leasesOf(ctx context.Context, c *conn.Conn, ref golibvirt.Network) []fleet.DHCPLease {
	rows, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.NetworkDhcpLease, error) {
		rows, _, err := l.NetworkGetDhcpLeases(ref, nil, 1, 0)
		return rows, err
	})
	if err != nil {
		return nil
	}
	var out []fleet.DHCPLease
	for _, r := range rows {
		ip := net.ParseIP(r.Ipaddr)
		if ip == nil || len(r.Mac) == 0 {
			continue
		}
		l := fleet.DHCPLease{MAC: strings.ToLower(r.Mac[0]), IP: ip.String()}
		if len(r.Hostname) > 0 {
			l.Name = r.Hostname[0]
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b fleet.DHCPLease) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.MAC, b.MAC)) })
	return out[:min(len(out), maxLeases)]
}
