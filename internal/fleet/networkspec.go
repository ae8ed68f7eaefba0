package fleet

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// NetworkMode is how a managed network connects its guests to the outside of their hosts.
type NetworkMode string

const (
	NetworkNAT      NetworkMode = "nat"      // guests use their host's address outside
	NetworkRouted   NetworkMode = "route"    // guests use their own addresses; outside routers need a route back
	NetworkIsolated NetworkMode = "isolated" // no connection to the outside
)

// Bounds of a network's fields.
const (
	MaxRanges = 8
	MaxLeases = 256
	MinMTU    = 576
	MaxMTU    = 65535
)

// NetworkSpec defines a managed network, the same on every assigned host. NetworkType lists the fields of each mode.
type NetworkSpec struct {
	Mode   NetworkMode `json:"mode"`
	IPv4   *Subnet     `json:"ipv4,omitempty"`
	IPv6   *Subnet     `json:"ipv6,omitempty"`   // routed in every mode, because there is no NAT for IPv6
	DNS    bool        `json:"dns"`              // the host serves DNS to guests
	Domain string      `json:"domain,omitempty"` // DNS domain of the guests
	Bridge string      `json:"bridge,omitempty"` // bridge device on the hosts; empty: libvirt chooses the name
	MTU    int         `json:"mtu,omitempty"`    // 0: the default
	// Device is the host device that guests connect to. In the modes nat and route, Device is the only host device for
	// outgoing traffic; empty: any device.
	Device string `json:"device,omitempty"`
	VLAN   int    `json:"vlan,omitempty"` // 0: untagged
	VNI    int    `json:"vni,omitempty"`  // VXLAN network identifier of an overlay
	// Underlay is the subnet between an overlay's hosts. Each host has an address in it.
	Underlay string     `json:"underlay,omitempty"`
	Direct   DirectMode `json:"direct,omitempty"` // macvtap mode
	// STP: the bridge runs the spanning tree protocol, which delays traffic of each new port by some seconds
	STP         bool   `json:"stp,omitempty"`
	Description string `json:"description,omitempty"`
	// Adopted: the network existed on its hosts before Quantix, which never changes or removes their definitions
	Adopted bool `json:"adopted,omitempty"`

	PortGroups []PortGroup `json:"portGroups,omitempty"`
}

// Subnet is a network's subnet of one address family.
type Subnet struct {
	Gateway string `json:"gateway"`        // the host's own address with its prefix length: "192.168.50.1/24"
	DHCP    *DHCP  `json:"dhcp,omitempty"` // nil: no DHCP
}

// DHCP configures the addresses that a host's DHCP server gives out.
type DHCP struct {
	Ranges []AddressRange `json:"ranges,omitempty"`
	Leases []StaticLease  `json:"leases,omitempty"` // IPv4 only
}

// AddressRange is a range of addresses, both ends included.
type AddressRange struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// StaticLease is the fixed address of the NIC with a MAC address.
type StaticLease struct {
	MAC  string `json:"mac"`
	IP   string `json:"ip"`
	Name string `json:"name,omitempty"`
}

// Prefix returns the subnet's prefix, such as 192.168.50.0/24; invalid if the gateway cannot be parsed.
func (s *Subnet) Prefix() netip.Prefix {
	if s == nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s.Gateway)
	if err != nil {
		return netip.Prefix{}
	}
	return p.Masked()
}

// Prefixes returns the spec's valid subnets.
func (s NetworkSpec) Prefixes() (out []netip.Prefix) {
	for _, p := range []netip.Prefix{s.IPv4.Prefix(), s.IPv6.Prefix()} {
		if p.IsValid() {
			out = append(out, p)
		}
	}
	return out
}

// RunsDHCPOrDNS reports whether each host runs a DNS or DHCP server for the network's guests.
func (s NetworkSpec) RunsDHCPOrDNS() bool {
	gives := func(n *Subnet) bool { return n != nil && n.DHCP != nil }
	return (s.IPv4 != nil || s.IPv6 != nil) && (s.DNS || gives(s.IPv4) || gives(s.IPv6))
}

var (
	domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	guestForm  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	// Devices that belong to the host's system or to other programs. This check only saves a round trip: each host
	// refuses names of its actual devices.
	systemDevice = regexp.MustCompile(`^(lo|all|default|bonding_masters|(eth|wlan|bond|team|dummy|docker|podman|cni|lxcbr|lxdbr|sit|ip6tnl|tunl|gre|wg|tun|tap|vnet|veth|macvtap|ifb|vxlan)[0-9].*|(en|wl|ww|ib)[opsxP][0-9a-f].*|br-[0-9a-f]+|veth.*|cali.*|flannel.*|ovs-.*)$`)
)

// Check adds an error for each invalid field, with JSON paths below prefix ("spec").
func (s NetworkSpec) Check(c *Checks, prefix string) {
	s.checkMode(c, prefix)
	s.checkPortGroups(c, prefix+".portGroups")
	switch s.Mode {
	case NetworkNAT:
		if s.IPv4 == nil {
			c.Add(prefix+".ipv4.gateway", "A network with NAT needs an IPv4 subnet: enter the hosts' address in the subnet, such as 192.168.50.1/24.")
		}
	case NetworkRouted:
		if s.IPv4 == nil && s.IPv6 == nil {
			c.Add(prefix+".ipv4.gateway", "A routed network needs a subnet: enter the hosts' address in the subnet, such as 192.168.50.1/24.")
		}
	}
	if s.Mode.Info().Mode != "" && !s.Mode.Info().HostAddresses {
		s.checkWithoutAddresses(c, prefix)
		return
	}
	if s.IPv4 != nil {
		s.IPv4.check(c, prefix+".ipv4", family4)
	}
	if s.IPv6 != nil {
		s.IPv6.check(c, prefix+".ipv6", family6)
	}
	if len(s.Domain) > 253 || s.Domain != "" && !domainForm.MatchString(s.Domain) {
		c.Add(prefix+".domain", "A DNS domain has lower-case letters, digits and hyphens between dots, such as lab.example.org.")
	}
	checkDevice(c, prefix+".bridge", s.Bridge, "bridge")
	if systemDevice.MatchString(s.Bridge) {
		c.Add(prefix+".bridge", "%s is a device name of the system or of another program. Enter another name, such as qx-lab, or leave the field empty.", s.Bridge)
	}
	s.checkDevices(c, prefix)
	CheckDescription(c, prefix+".description", s.Description)
}

// checkWithoutAddresses is Check for modes whose networks give the hosts no address.
func (s NetworkSpec) checkWithoutAddresses(c *Checks, prefix string) {
	checkDevice(c, prefix+".bridge", s.Bridge, "bridge")
	if s.Mode.Info().CreatesDevices && systemDevice.MatchString(s.Bridge) {
		c.Add(prefix+".bridge", "%s is a device name of the system or of another program. Enter another name, such as qx-lab, or leave the field empty.", s.Bridge)
	}
	s.checkDevices(c, prefix)
	CheckDescription(c, prefix+".description", s.Description)
}

func (s NetworkSpec) checkDevices(c *Checks, prefix string) {
	if s.Mode.Info().HasField("device") {
		checkDevice(c, prefix+".device", s.Device, "device")
	}
	if s.Device != "" && s.Device == s.Bridge {
		c.Add(prefix+".device", "A network cannot use its own bridge as the outgoing device. Enter an outgoing device of the hosts, or leave the field empty.")
	}
	switch {
	case s.MTU != 0 && (s.MTU < MinMTU || s.MTU > MaxMTU):
		c.Add(prefix+".mtu", "An MTU is between %d and %d bytes. Leave the field empty for the default.", MinMTU, MaxMTU)
	case s.MTU != 0 && s.MTU < 1280 && s.IPv6 != nil:
		c.Add(prefix+".mtu", "IPv6 needs an MTU of at least 1280 bytes.")
	}
}

func checkDevice(c *Checks, field, name, what string) {
	if name != "" && !deviceForm.MatchString(name) {
		c.Add(field, "The name of a %s has 1–15 letters, digits and . _ -, and starts with a letter or digit.", what)
	}
}

// addressFamily holds the differences between IPv4 and IPv6.
type addressFamily struct {
	name, other, example string
	is                   func(netip.Addr) bool
	minBits, maxBits     int            // bounds of the prefix length, bits
	boundsError          string         // error text for a prefix length outside the bounds
	reserved             []netip.Prefix // prefixes that guest networks must not overlap
}

var (
	family4 = addressFamily{
		name: "IPv4", other: "IPv6", example: "192.168.50.1/24", is: netip.Addr.Is4, minBits: 8, maxBits: 30,
		boundsError: "An IPv4 subnet must be /8 to /30: smaller ones have no address for a guest.",
		reserved:    mustParsePrefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"),
	}
	family6 = addressFamily{
		name: "IPv6", other: "IPv4", example: "fd00:50::1/64", is: func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }, minBits: 64, maxBits: 126,
		boundsError: "An IPv6 subnet must be /64 to /126. Guests with stateless autoconfiguration (SLAAC) need /64.",
		reserved:    mustParsePrefixes("::/8", "fe80::/10", "ff00::/8"),
	}
)

func mustParsePrefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

func (s Subnet) check(c *Checks, at string, f addressFamily) {
	gateway, err := netip.ParsePrefix(s.Gateway)
	net := gateway.Masked()
	switch field := at + ".gateway"; {
	case err != nil:
		c.Add(field, "Enter the hosts' %s address with its prefix length, such as %s.", f.name, f.example)
		return
	case !f.is(gateway.Addr()):
		c.Add(field, "%s is not an %s address. Enter it under %s.", gateway.Addr(), f.name, f.other)
		return
	case gateway.Bits() < f.minBits || gateway.Bits() > f.maxBits:
		c.Add(field, "%s", f.boundsError)
		return
	case slices.ContainsFunc(f.reserved, net.Overlaps):
		c.Add(field, "%s contains loopback, link-local, multicast or reserved addresses. Enter a subnet for guests, such as %s.", net, f.example)
		return
	case gateway.Addr() == net.Addr():
		c.Add(field, "%s is the address of the subnet itself. Enter one within it, such as %s.", gateway.Addr(), netip.PrefixFrom(net.Addr().Next(), net.Bits()))
		return
	case gateway.Addr() == broadcast(net):
		c.Add(field, "%s is the subnet's broadcast address. Enter another address of %s.", gateway.Addr(), net)
		return
	}
	if s.DHCP == nil {
		return
	}
	if len(s.DHCP.Ranges) == 0 && len(s.DHCP.Leases) == 0 {
		c.Add(at+".dhcp.ranges", "Enter a DHCP range, or switch DHCP off.")
	}
	s.DHCP.checkRanges(c, at+".dhcp.ranges", gateway, f)
	if f.name == family6.name && len(s.DHCP.Leases) > 0 {
		c.Add(at+".dhcp.leases", "Static leases are only for IPv4.")
		return
	}
	s.DHCP.checkLeases(c, at+".dhcp.leases", gateway)
}

// broadcast returns the last address of an IPv4 subnet; IPv6 has none.
func broadcast(p netip.Prefix) netip.Addr {
	if !p.Addr().Is4() {
		return netip.Addr{}
	}
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// whyAddressNotAssignable returns why the address cannot be given to a guest of the subnet; empty: it can.
func whyAddressNotAssignable(a netip.Addr, gateway netip.Prefix) string {
	switch net := gateway.Masked(); {
	case !net.Contains(a):
		return fmt.Sprintf("%s is outside the subnet %s.", a, net)
	case a == gateway.Addr():
		return fmt.Sprintf("%s is the hosts' own address.", a)
	case a == net.Addr():
		return fmt.Sprintf("%s is the address of the subnet itself.", a)
	case a == broadcast(net):
		return fmt.Sprintf("%s is the subnet's broadcast address.", a)
	}
	return ""
}

func (d DHCP) checkRanges(c *Checks, field string, gateway netip.Prefix, f addressFamily) {
	if len(d.Ranges) > MaxRanges {
		c.Add(field, "A subnet has at most %d DHCP ranges.", MaxRanges)
		return
	}
	type span struct{ from, to netip.Addr }
	var before []span
	for i, r := range d.Ranges {
		at := fmt.Sprintf("%s[%d]", field, i)
		from, err := netip.ParseAddr(r.Start)
		to, err2 := netip.ParseAddr(r.End)
		wrong := err != nil || err2 != nil || !f.is(from) || !f.is(to) || from.Zone()+to.Zone() != ""
		if wrong {
			c.Add(at, "Enter the first and the last %s address of the range.", f.name)
			continue
		}
		switch host := gateway.Addr(); {
		case whyAddressNotAssignable(from, gateway) != "":
			c.Add(at, "%s Enter a range of addresses for guests.", whyAddressNotAssignable(from, gateway))
		case whyAddressNotAssignable(to, gateway) != "":
			c.Add(at, "%s Enter a range of addresses for guests.", whyAddressNotAssignable(to, gateway))
		case to.Less(from):
			c.Add(at, "The range ends at %s before it begins at %s.", to, from)
		case !host.Less(from) && !to.Less(host):
			c.Add(at, "The range contains %s, the hosts' own address. Enter ranges before or after this address.", host)
		case slices.ContainsFunc(before, func(b span) bool { return !to.Less(b.from) && !b.to.Less(from) }):
			c.Add(at, "The range %s to %s overlaps another one.", from, to)
		default:
			before = append(before, span{from, to})
		}
	}
}

func (d DHCP) checkLeases(c *Checks, field string, gateway netip.Prefix) {
	if len(d.Leases) > MaxLeases {
		c.Add(field, "A subnet has at most %d static leases.", MaxLeases)
		return
	}
	macs, ips := map[string]bool{}, map[netip.Addr]bool{}
	for i, l := range d.Leases {
		at := fmt.Sprintf("%s[%d]", field, i)
		mac, err := net.ParseMAC(l.MAC)
		switch {
		case err != nil || len(mac) != 6 || mac[0]&1 != 0:
			c.Add(at, "%q is not a unicast MAC address such as 52:54:00:12:34:56.", l.MAC)
			continue
		case macs[mac.String()]:
			c.Add(at, "%s already has a lease.", mac)
			continue
		}
		macs[mac.String()] = true
		ip, err := netip.ParseAddr(l.IP)
		switch {
		case err != nil || !ip.Is4():
			c.Add(at, "%q is not an IPv4 address.", l.IP)
			continue
		case whyAddressNotAssignable(ip, gateway) != "":
			c.Add(at, "%s Enter another address for %s.", whyAddressNotAssignable(ip, gateway), mac)
			continue
		case ips[ip]:
			c.Add(at, "%s is already leased to another NIC.", ip)
			continue
		}
		ips[ip] = true
		if l.Name != "" && !guestForm.MatchString(l.Name) {
			c.Add(at, "%q is not a host name: a host name has 1–63 letters, digits and hyphens.", l.Name)
		}
	}
}

// Normalized returns the spec in its stored form: texts trimmed, MAC addresses in one notation.
func (s NetworkSpec) Normalized() NetworkSpec {
	tidy := func(n *Subnet) *Subnet {
		if n == nil {
			return nil
		}
		out := Subnet{Gateway: strings.TrimSpace(n.Gateway)}
		if n.DHCP != nil {
			out.DHCP = &DHCP{}
			for _, r := range n.DHCP.Ranges {
				out.DHCP.Ranges = append(out.DHCP.Ranges, AddressRange{strings.TrimSpace(r.Start), strings.TrimSpace(r.End)})
			}
			for _, l := range n.DHCP.Leases {
				l = StaticLease{strings.TrimSpace(l.MAC), strings.TrimSpace(l.IP), strings.TrimSpace(l.Name)}
				if mac, err := net.ParseMAC(l.MAC); err == nil {
					l.MAC = mac.String()
				}
				out.DHCP.Leases = append(out.DHCP.Leases, l)
			}
		}
		return &out
	}
	s.IPv4, s.IPv6 = tidy(s.IPv4), tidy(s.IPv6)
	s.Domain, s.Bridge, s.Device = strings.TrimSpace(s.Domain), strings.TrimSpace(s.Bridge), strings.TrimSpace(s.Device)
	s.Underlay = strings.TrimSpace(s.Underlay)
	return s
}
