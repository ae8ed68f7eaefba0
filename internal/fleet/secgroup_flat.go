package fleet

import (
	"fmt"
	"net/netip"
	"slices"
)

// FlatGroup is a security group as a host gets it: its rules contain addresses instead of group references.
type FlatGroup struct {
	ID       SecurityGroupID `json:"id"`
	Name     string          `json:"name"`
	Revision int64           `json:"revision"`
	Rules    []FlatRule      `json:"rules"`
}

// FlatRule is a rule whose remote consists only of addresses.
type FlatRule struct {
	ID        string         `json:"id"`
	Direction Direction      `json:"direction"`
	Protocol  Protocol       `json:"protocol"`
	FromPort  int            `json:"fromPort,omitempty"`
	ToPort    int            `json:"toPort,omitempty"`
	Anybody   bool           `json:"anybody,omitempty"` // any remote address; false: only Remotes
	Remotes   []netip.Prefix `json:"remotes,omitempty"`
}

// Flatten replaces the group references of the rules by the addresses of members. It leaves out invalid addresses.
func (g SecurityGroup) Flatten(members map[SecurityGroupID][]string) FlatGroup {
	out := FlatGroup{ID: g.ID, Name: g.Name, Revision: g.Revision, Rules: make([]FlatRule, 0, len(g.Spec.Rules))}
	for _, r := range g.Spec.Rules {
		f := FlatRule{ID: r.ID, Direction: r.Direction, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort}
		switch {
		case r.GroupID != "":
			for _, text := range members[r.GroupID] {
				if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() {
					f.Remotes = append(f.Remotes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
				}
			}
			slices.SortFunc(f.Remotes, netip.Prefix.Compare)
			f.Remotes = slices.Compact(f.Remotes)
		case r.CIDR == "":
			f.Anybody = true
		default:
			if p, ok := parseCIDR(r.CIDR); ok {
				f.Remotes = []netip.Prefix{p}
			}
		}
		out.Rules = append(out.Rules, f)
	}
	return out
}

// FilterRuleCount returns the number of filter rules that a host creates for the group.
func (g FlatGroup) FilterRuleCount() int {
	n := 0
	for _, r := range g.Rules {
		if n += len(r.Remotes); r.Anybody {
			n++
		}
	}
	return n
}

// Check adds an error for each value that a host refuses. It applies the portal's checks again, and the host's own
// bounds.
func (g FlatGroup) Check(c *Checks) {
	if !IsID(string(g.ID)) {
		c.Add("id", "The group has no id.")
	}
	CheckName(c, "name", g.Name)
	if n := g.FilterRuleCount(); n > MaxFlatRules || len(g.Rules) > MaxSecurityRules {
		c.Add("rules", "The group expands to %d rules with the addresses of all members; a host supports %d. Use a subnet instead of a group in its rules.", n, MaxFlatRules)
	}
	ids := map[string]bool{}
	for i, r := range g.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if !isRuleID(r.ID) || ids[r.ID] {
			c.Add(at+".id", "Each rule needs a unique id.")
		}
		ids[r.ID] = true
		SecurityRule{Direction: r.Direction, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort}.check(c, at)
		if r.Anybody && len(r.Remotes) > 0 {
			c.Add(at+".remotes", "The remote is any address, or these addresses.")
		}
		for _, p := range r.Remotes {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
				c.Add(at+".remotes", "These are not valid addresses.")
			}
		}
	}
}

// Packet is the first packet of a connection, as it passes a NIC. The port of the connection's other end does not
// matter.
type Packet struct {
	Direction Direction
	Protocol  Protocol
	Port      int        // receiver's port, for tcp and udp
	Remote    netip.Addr // remote address; invalid: unknown
}

// PacketVerdict is the result of the rules for one packet: whether it passes the NIC, and which rule allows it.
type PacketVerdict struct {
	Pass    bool            `json:"pass"`
	Known   bool            `json:"known"`             // false: the result depends on an unknown address
	GroupID SecurityGroupID `json:"groupId,omitempty"` // group of the rule that allows the packet
	RuleID  string          `json:"ruleId,omitempty"`
}

// EvaluatePacket applies the groups of a NIC to a packet: the first rule that allows the packet wins. A NIC without
// groups passes every packet.
func EvaluatePacket(groups []FlatGroup, p Packet) PacketVerdict {
	if len(groups) == 0 {
		return PacketVerdict{Pass: true, Known: true}
	}
	uncertain := false
	for g := range groups {
		for r := range groups[g].Rules {
			switch rule := &groups[g].Rules[r]; rule.allows(p) {
			case yes:
				return PacketVerdict{Pass: true, Known: true, GroupID: groups[g].ID, RuleID: rule.ID}
			case maybe:
				uncertain = true
			}
		}
	}
	return PacketVerdict{Known: !uncertain}
}

type verdict int

const (
	no verdict = iota
	maybe
	yes
)

func (r *FlatRule) allows(p Packet) verdict {
	switch {
	case r.Direction != p.Direction || r.Protocol != AnyProtocol && r.Protocol != p.Protocol:
		return no
	case r.FromPort != 0 && (p.Port < r.FromPort || p.Port > max(r.ToPort, r.FromPort)):
		return no
	case r.Protocol == AnyProtocol && p.Protocol != AnyProtocol && r.FromPort != 0:
		return no
	case r.Anybody:
		return yes
	case !p.Remote.IsValid():
		if len(r.Remotes) > 0 {
			return maybe
		}
		return no
	}
	remote := p.Remote.Unmap()
	for _, prefix := range r.Remotes {
		if prefix.Contains(remote) {
			return yes
		}
	}
	return no
}
