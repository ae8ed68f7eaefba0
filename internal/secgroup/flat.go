package secgroup

import (
	"fmt"
	"net/netip"
	"slices"

	"quantix/internal/fleet"
)

// FlatGroup is a security group as a host gets it: its rules contain addresses instead of group references.
type FlatGroup struct {
	ID       fleet.SecurityGroupID `json:"id"`
	Name     string                `json:"name"`
	Revision int64                 `json:"revision"`
	Rules    []FlatRule            `json:"rules"`
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
func (g Group) Flatten(members map[fleet.SecurityGroupID][]string) FlatGroup {
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
func (g FlatGroup) Check(c *fleet.Checks) {
	if !fleet.IsID(string(g.ID)) {
		c.Add("id", "The group has no id.")
	}
	fleet.CheckName(c, "name", g.Name)
	if n := g.FilterRuleCount(); n > MaxFlatRules || len(g.Rules) > MaxRules {
		c.Add("rules", "The group expands to %d rules with the addresses of all members; a host supports %d. Use a subnet instead of a group in its rules.", n, MaxFlatRules)
	}
	ids := map[string]bool{}
	for i, r := range g.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if !isRuleID(r.ID) || ids[r.ID] {
			c.Add(at+".id", "Each rule needs a unique id.")
		}
		ids[r.ID] = true
		Rule{Direction: r.Direction, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort}.check(c, at)
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
