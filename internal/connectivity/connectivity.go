// Package connectivity evaluates whether a connection would pass the security groups of its two ends.
package connectivity

import (
	"net/netip"
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// ConnectionQuery asks whether a connection would pass the security groups of its two ends. Each end is a VM's NIC or an
// address.
type ConnectionQuery struct {
	From     ConnectionEnd     `json:"from"`
	To       ConnectionEnd     `json:"to"`
	Protocol secgroup.Protocol `json:"protocol"`
	Port     int               `json:"port,omitempty"` // receiver's port, for tcp and udp
}

// ConnectionEnd is one end of the connection: a VM's NIC, or an address outside all VMs.
type ConnectionEnd struct {
	VMID    fleet.VMID `json:"vmId,omitempty"`
	MAC     string     `json:"mac,omitempty"`     // MAC address of the NIC; empty: the VM's first NIC
	Address string     `json:"address,omitempty"` // one of the NIC's addresses; without a VM, the address of this end
}

// Check adds an error for each invalid field.
func (q ConnectionQuery) Check(c *fleet.Checks) {
	q.From.check(c, "from")
	q.To.check(c, "to")
	if q.From.VMID == "" && q.To.VMID == "" {
		c.Add("from.vmId", "Choose a VM for at least one end: security groups apply to NICs.")
	}
	if q.Protocol == secgroup.AnyProtocol || !slices.Contains(secgroup.Protocols, q.Protocol) {
		c.Add("protocol", "Choose the protocol: tcp, udp, icmp or icmpv6.")
	}
	if ported := q.Protocol == secgroup.TCP || q.Protocol == secgroup.UDP; ported && (q.Port < 1 || q.Port > secgroup.HighestPort) {
		c.Add("port", "Enter a port from 1 to %d.", secgroup.HighestPort)
	} else if !ported && q.Port != 0 {
		c.Add("port", "Only tcp and udp have ports.")
	}
	q.checkFamilies(c)
}

// checkFamilies adds an error if the two ends have addresses of different families, which can never communicate.
func (q ConnectionQuery) checkFamilies(c *fleet.Checks) {
	from, to := endAddress(q.From, nil, nil), endAddress(q.To, nil, nil)
	if from.IsValid() && to.IsValid() && from.Is4() != to.Is4() {
		c.Add("to.address", "IPv4 and IPv6 addresses cannot communicate. Enter two addresses of the same family.")
	}
	for i, a := range []netip.Addr{from, to} {
		at := []string{"from.address", "to.address"}[i]
		switch {
		case a.Is6() && q.Protocol == secgroup.ICMP:
			c.Add(at, "ICMP is for IPv4. For %s choose icmpv6.", a)
		case a.Is4() && q.Protocol == secgroup.ICMPv6:
			c.Add(at, "ICMPv6 is for IPv6. For %s choose icmp.", a)
		}
	}
}

func (e ConnectionEnd) check(c *fleet.Checks, at string) {
	switch {
	case e.VMID == "" && e.Address == "":
		c.Add(at+".vmId", "Choose a VM, or enter an address.")
	case e.VMID != "" && !fleet.IsID(string(e.VMID)):
		c.Add(at+".vmId", "There is no such VM.")
	}
	if e.Address == "" {
		return
	}
	if a, err := netip.ParseAddr(e.Address); err != nil || a.Zone() != "" || a.IsUnspecified() {
		c.Add(at+".address", "Enter an address such as 10.0.0.7 or 2001:db8::7.")
	}
}

// ConnectionNIC is a VM's NIC with its filter settings, as EvaluateConnection needs it.
type ConnectionNIC struct {
	VMID         fleet.VMID
	VMName       string
	MAC          string
	Addresses    []netip.Addr
	AntiSpoofing bool // anti-spoofing restricts the guest to these IPv4 addresses
	Groups       []secgroup.FlatGroup
	State        secgroup.State // state of the NIC's groups on its host; empty: no groups
}

// PassSide is the result for one end of the connection.
type PassSide struct {
	VMID    fleet.VMID `json:"vmId,omitempty"`
	VMName  string     `json:"vmName,omitempty"`
	MAC     string     `json:"mac,omitempty"`
	Address string     `json:"address,omitempty"` // address used for the evaluation; empty: unknown
	PacketVerdict
	GroupName string         `json:"groupName,omitempty"` // group of the rule that allows the connection
	Groups    []string       `json:"groups,omitempty"`    // names of all groups of the NIC
	Rule      string         `json:"rule,omitempty"`      // the rule that allows the connection, as text
	Why       string         `json:"why"`                 // explanation in a sentence
	State     secgroup.State `json:"state,omitempty"`
}

// PassAnswer is the result for both ends of the connection.
type PassAnswer struct {
	Pass  bool     `json:"pass"`
	Known bool     `json:"known"` // false: the result depends on an unknown address
	From  PassSide `json:"from"`  // sender's side: egress
	To    PassSide `json:"to"`    // receiver's side: ingress
}

// EvaluateConnection evaluates the question. from and to are the NICs at the two ends; nil: the end is not a VM. rule
// formats a rule, given its group's ID and its own ID.
func EvaluateConnection(q ConnectionQuery, from, to *ConnectionNIC, rule func(fleet.SecurityGroupID, string) string) PassAnswer {
	v6 := q.Protocol == secgroup.ICMPv6
	if a := endAddress(q.From, nil, nil); a.IsValid() {
		v6 = a.Is6()
	} else if a := endAddress(q.To, nil, nil); a.IsValid() {
		v6 = a.Is6()
	} else if from != nil && q.Protocol != secgroup.ICMP && !slices.ContainsFunc(from.Addresses, netip.Addr.Is4) && len(from.Addresses) > 0 {
		v6 = true
	}
	source, target := endAddress(q.From, from, &v6), endAddress(q.To, to, &v6)
	out := PassAnswer{
		From: evaluateConnectionSide(q, secgroup.Egress, from, source, target, rule),
		To:   evaluateConnectionSide(q, secgroup.Ingress, to, target, source, rule),
	}
	out.Pass = out.From.Pass && out.To.Pass
	out.Known = out.Pass || out.From.Known && !out.From.Pass || out.To.Known && !out.To.Pass
	return out
}

// endAddress returns the end's address: the requested one, or the NIC's first address of the other end's family.
func endAddress(e ConnectionEnd, nic *ConnectionNIC, v6 *bool) netip.Addr {
	if a, err := netip.ParseAddr(e.Address); err == nil {
		return a.Unmap()
	}
	if nic != nil && v6 != nil {
		for _, a := range nic.Addresses {
			if a.Is6() == *v6 {
				return a
			}
		}
	}
	return netip.Addr{}
}

func evaluateConnectionSide(q ConnectionQuery, way secgroup.Direction, nic *ConnectionNIC, own, remote netip.Addr, rule func(fleet.SecurityGroupID, string) string) PassSide {
	s := PassSide{PacketVerdict: PacketVerdict{Pass: true, Known: true}}
	if own.IsValid() {
		s.Address = own.String()
	}
	if nic == nil {
		s.Why = "This end is not one of your VMs, so no security group applies here."
		return s
	}
	s.VMID, s.VMName, s.MAC, s.State = nic.VMID, nic.VMName, nic.MAC, nic.State
	s.PacketVerdict = EvaluatePacket(nic.Groups, Packet{Direction: way, Protocol: q.Protocol, Port: q.Port, Remote: remote})
	for _, g := range nic.Groups {
		s.Groups = append(s.Groups, g.Name)
		if g.ID == s.GroupID {
			s.GroupName = g.Name
		}
	}
	if four := slices.ContainsFunc(nic.Addresses, netip.Addr.Is4); way == secgroup.Egress && nic.AntiSpoofing && four && own.Is4() && !slices.Contains(nic.Addresses, own) {
		s.PacketVerdict, s.Why = PacketVerdict{Known: true}, "Anti-spoofing drops the packet: "+s.Address+" is not an address of the NIC."
		return s
	}
	word := map[secgroup.Direction]string{secgroup.Ingress: "incoming", secgroup.Egress: "outgoing"}[way]
	switch {
	case len(nic.Groups) == 0:
		s.Why = "The NIC is in no security group, so all traffic passes."
	case s.Pass:
		s.Rule = rule(s.GroupID, s.RuleID)
		s.Why = "A rule of " + s.GroupName + " allows " + word + " traffic: " + s.Rule + "."
	case !s.Known:
		s.Why = "The result depends on the other end's address, which is unknown. Enter the address."
	default:
		s.Why = "No rule of the NIC's groups allows this " + word + " traffic, so it is dropped."
	}
	return s
}
