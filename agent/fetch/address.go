package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"quantix/internal/fleet"
)

const (
	dialTimeout        = 15 * time.Second
	maxDialedAddresses = 8 // addresses tried per name
)

// blockedNetworks are networks that downloads must not use, in addition to the networks that netip classifies.
var blockedNetworks = parsePrefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", // this network, carriers' NAT, protocols, benchmarks, reserved
	"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "fec0::/10", // IPv4-compatible and -translated, local NAT64, discard, Teredo, site-local
	"168.63.129.16/32", // Azure's platform services, at a public address
)

// IPv6 prefixes that a router translates to IPv4. The embedded IPv4 address is checked.
var (
	nat64Prefix     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFourPrefix = netip.MustParsePrefix("2002::/16")
)

func parsePrefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// embeddedIPv4 returns the IPv4 address of an IPv6 address that embeds one, and any other address unchanged.
func embeddedIPv4(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	b := a.As16()
	switch {
	case nat64Prefix.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFourPrefix.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:]))
	}
	return a
}

// isNonPublicAddress reports whether the address is not on the public Internet.
func isNonPublicAddress(a netip.Addr) bool {
	return !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
		slices.ContainsFunc(blockedNetworks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// checkAddressAllowed returns the reason why downloads from the address are refused; nil: they are allowed.
func (c *Client) checkAddressAllowed(given netip.Addr) error {
	a := embeddedIPv4(given)
	if slices.ContainsFunc(c.settings.AllowedNetworks, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	const advice = "The agent's setting fetchFrom on the host must allow downloads from that address."
	if isNonPublicAddress(a) {
		return fleet.Errorf(fleet.Conflict, "The address %s is in a private or reserved network. %s", given, advice)
	}
	own, err := c.hostAddresses()
	if err != nil {
		return fmt.Errorf("list the host's own addresses: %w", err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok {
			if ownAddr, ok := netip.AddrFromSlice(n.IP); ok && ownAddr.Unmap() == a {
				return fleet.Errorf(fleet.Conflict, "The address %s belongs to this host. %s", given, advice)
			}
		}
	}
	return nil
}

// checkDialedAddress checks the address when the dialer connects, so no name, redirect or DNS change can bypass it.
func (c *Client) checkDialedAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address %q: %w", address, err)
	}
	return c.checkAddressAllowed(to.Addr())
}

// dial connects to a name, trying its addresses one after the other.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	lookup, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	all, err := c.lookup(lookup, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout, ControlContext: c.checkDialedAddress}
	err = errors.New("the name has no address")
	for i, a := range all[:min(len(all), maxDialedAddresses)] {
		conn, failed := dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if failed == nil {
			return conn, nil
		}
		if i == 0 || fleet.CodeOf(failed) != "" {
			err = failed
		}
	}
	return nil, err
}
