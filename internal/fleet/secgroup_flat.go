package fleet

import (
	"fmt"
	"net/netip"
	"slices"
)

// FlatGroup is a security group as a host needs it: each rule with the addresses that it is about.
type FlatGroup struct {
	ID       SecurityGroupID `json:"id"`
	Name     string          `json:"name"`
	Revision int64           `json:"revision"`
	Rules    []FlatRule      `json:"rules"`
}

// FlatRule is a rule whose other side is addresses alone.
type FlatRule struct {
	ID        string         `json:"id"`
	Direction Direction      `json:"direction"`
	Protocol  Protocol       `json:"protocol"`
	FromPort  int            `json:"fromPort,omitempty"`
	ToPort    int            `json:"toPort,omitempty"`
	Anybody   bool           `json:"anybody,omitempty"` // whatever the other side's address is; else one of Remotes
	Remotes   []netip.Prefix `json:"remotes,omitempty"`
}

// Flat is the group with the addresses of members in the place of the groups that its rules refer to. Addresses that are none are left out.
func (g SecurityGroup) Flat(members map[SecurityGroupID][]string) FlatGroup {
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
			if p, ok := readCIDR(r.CIDR); ok {
				f.Remotes = []netip.Prefix{p}
			}
		}
		out.Rules = append(out.Rules, f)
	}
	return out
}

// Entries is how many rules a host makes of the group.
func (g FlatGroup) Entries() int {
	n := 0
	for _, r := range g.Rules {
		if n += len(r.Remotes); r.Anybody {
			n++
		}
	}
	return n
}

// Check notes what no host takes: it is the same that the portal demands of people, and the bound of a host.
func (g FlatGroup) Check(c *Checks) {
	if !IsID(string(g.ID)) {
		c.Add("id", "The group has no id.")
	}
	CheckName(c, "name", g.Name)
	if n := g.Entries(); n > MaxFlatRules || len(g.Rules) > MaxSecurityRules {
		c.Add("rules", "The group comes to %d rules with the addresses of all members; a host takes %d. Let rules name a subnet in the place of a group.", n, MaxFlatRules)
	}
	ids := map[string]bool{}
	for i, r := range g.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if !isRuleID(r.ID) || ids[r.ID] {
			c.Add(at+".id", "Each rule has an id of its own.")
		}
		ids[r.ID] = true
		SecurityRule{Direction: r.Direction, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort}.check(c, at)
		if r.Anybody && len(r.Remotes) > 0 {
			c.Add(at+".remotes", "The other side is anybody, or these addresses.")
		}
		for _, p := range r.Remotes {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
				c.Add(at+".remotes", "These are no addresses.")
			}
		}
	}
}

// Packet is what begins a connection, as one card sees it. The other side's port is not looked at.
type Packet struct {
	Direction Direction
	Protocol  Protocol
	Port      int        // at the receiver, of tcp and udp
	Remote    netip.Addr // the other side; invalid: not known
}

// Passing is whether a packet passes a card, and by what.
type Passing struct {
	Pass    bool            `json:"pass"`
	Known   bool            `json:"known"`             // false: it hangs on an address that is not known
	GroupID SecurityGroupID `json:"groupId,omitempty"` // whose rule lets it pass
	RuleID  string          `json:"ruleId,omitempty"`
}

// Passes is what the groups of one card say of a packet: the first rule that allows it counts. A card in no group lets all pass.
func Passes(groups []FlatGroup, p Packet) Passing {
	if len(groups) == 0 {
		return Passing{Pass: true, Known: true}
	}
	doubt := false
	for g := range groups {
		for r := range groups[g].Rules {
			switch rule := &groups[g].Rules[r]; rule.allows(p) {
			case yes:
				return Passing{Pass: true, Known: true, GroupID: groups[g].ID, RuleID: rule.ID}
			case perhaps:
				doubt = true
			}
		}
	}
	return Passing{Known: !doubt}
}

type answer int

const (
	no answer = iota
	perhaps
	yes
)

func (r *FlatRule) allows(p Packet) answer {
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
			return perhaps
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
