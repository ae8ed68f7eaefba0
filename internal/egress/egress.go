// Package egress decides which addresses a program may connect to on behalf of a user: the public Internet, and networks
// that an administrator allows. Names are checked by the addresses they resolve to, so no name, redirect or change in DNS
// bypasses the rules.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"quantix/internal/fleet"
)

const (
	// DialTimeout limits the lookup of a name, and the attempt at one address.
	DialTimeout        = 15 * time.Second
	maxDialedAddresses = 8 // addresses tried per name
)

// blockedNetworks are networks that are not public, in addition to the networks that netip classifies.
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

// Dialer connects to public addresses and to allowed networks. It is safe for concurrent use.
type Dialer struct {
	Allowed []netip.Prefix // private, reserved or own addresses that may be used
	Advice  string         // sentence that says what permits a refused address; empty: nothing does

	AllowedOnly bool           // public addresses are refused too
	Refused     []netip.Prefix // addresses that are refused although Allowed has their network

	// OwnAddresses and Lookup are replaced by tests.
	OwnAddresses func() ([]net.Addr, error)
	Lookup       func(ctx context.Context, host string) ([]netip.Addr, error)
}

// NewDialer returns a dialer that uses this machine's resolver.
func NewDialer(allowed []netip.Prefix, advice string) *Dialer {
	return &Dialer{Allowed: allowed, Advice: advice, OwnAddresses: net.InterfaceAddrs, Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
}

// Check returns the reason why connections to the address are refused, with the code Conflict; nil: they are allowed.
func (d *Dialer) Check(given netip.Addr) error {
	a := embeddedIPv4(given)
	refused := slices.ContainsFunc(d.Refused, func(p netip.Prefix) bool { return p.Contains(a) })
	if !refused && slices.ContainsFunc(d.Allowed, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	refusal := func(why string) error {
		return fleet.Errorf(fleet.Conflict, "%s", strings.TrimSpace(fmt.Sprintf("The address %s %s. %s", given, why, d.Advice)))
	}
	switch {
	case refused || isNonPublicAddress(a):
		return refusal("is in a private or reserved network")
	case d.AllowedOnly:
		return refusal("is in no allowed network")
	}
	own, err := d.OwnAddresses()
	if err != nil {
		return fmt.Errorf("list the host's own addresses: %w", err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok {
			if ownAddr, ok := netip.AddrFromSlice(n.IP); ok && ownAddr.Unmap() == a {
				return refusal("belongs to this host")
			}
		}
	}
	return nil
}

// checkDialedAddress checks the address when the dialer connects.
func (d *Dialer) checkDialedAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address %q: %w", address, err)
	}
	return d.Check(to.Addr())
}

// DialContext connects to a name, trying its addresses one after the other.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	lookup, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	all, err := d.Lookup(lookup, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: DialTimeout, ControlContext: d.checkDialedAddress}
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
