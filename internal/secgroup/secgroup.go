// Package secgroup defines security groups: their rules, as users edit them and as hosts get them, their state on hosts,
// and their packet counters.
package secgroup

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Group is a set of traffic rules for NICs. It belongs to one project, or is shared by all projects. A NIC in
// groups passes only traffic that a rule of one of these groups allows, in both directions; replies of allowed
// connections pass, too. A NIC without groups is not filtered.
type Group struct {
	ID         fleet.SecurityGroupID `json:"id"`
	ProjectID  fleet.ProjectID       `json:"projectId,omitempty"` // empty: shared by all projects
	Name       string                `json:"name"`                // unique in its project, or among shared groups
	Spec       Spec                  `json:"spec"`
	Generation int64                 `json:"generation"` // counts changes by users
	Revision   int64                 `json:"revision"`   // counts changes for hosts, such as rules and members' addresses
	CreatedAt  time.Time             `json:"createdAt"`
	// DeletedAt is set once deletion was requested. The group is removed when its last host has released it.
	DeletedAt *time.Time `json:"deletedAt,omitempty"`
}

// Spec holds the properties of a group that users edit.
type Spec struct {
	Description string `json:"description,omitempty"`
	Rules       []Rule `json:"rules"`
}

// Rule allows traffic of one direction and protocol between a NIC and remote addresses.
type Rule struct {
	ID        string    `json:"id"` // unique in the group; set by the portal when empty
	Direction Direction `json:"direction"`
	Protocol  Protocol  `json:"protocol"`
	FromPort  int       `json:"fromPort,omitempty"` // tcp and udp: first port of the receiver; 0: all ports
	ToPort    int       `json:"toPort,omitempty"`   // last port; 0: only FromPort
	CIDR      string    `json:"cidr,omitempty"`     // remote addresses; excludes GroupID
	// GroupID selects the members of a group as remote addresses, possibly members of this same group. Without CIDR and
	// GroupID, any remote address matches.
	GroupID     fleet.SecurityGroupID `json:"groupId,omitempty"`
	Description string                `json:"description,omitempty"`
}

// Direction is the direction of a connection's first packet.
type Direction string

const (
	Ingress Direction = "ingress" // to the NIC
	Egress  Direction = "egress"  // from the NIC
)

// Protocol is the IP protocol of a rule or packet.
type Protocol string

const (
	AnyProtocol Protocol = "any"
	TCP         Protocol = "tcp"
	UDP         Protocol = "udp"
	ICMP        Protocol = "icmp"
	ICMPv6      Protocol = "icmpv6"
)

// Protocols lists the protocols in form order.
var Protocols = []Protocol{AnyProtocol, TCP, UDP, ICMP, ICMPv6}

// Bounds of security groups.
const (
	MaxRules        = 100
	MaxPerProject   = 1000
	MaxNICAddresses = 16   // addresses of one NIC that count for its group membership
	MaxFlatRules    = 4000 // rules of a group on a host, after expansion to member addresses
	HighestPort     = 65535
	maxRuleText     = 200
	ruleIDLength    = 12
)

// AllowAllEgressRule returns the default rule of a new group, which allows all outgoing traffic.
func AllowAllEgressRule() Rule { return Rule{Direction: Egress, Protocol: AnyProtocol} }

// Normalized returns the spec with IDs for its rules and CIDRs in canonical form: 10.0.0.7/24 becomes 10.0.0.0/24.
func (s Spec) Normalized() Spec {
	rules := make([]Rule, len(s.Rules))
	for i, r := range s.Rules {
		if r.ID == "" {
			r.ID = strings.ReplaceAll(fleet.NewID[string](), "-", "")[32-ruleIDLength:]
		}
		rules[i] = r.canonicalForm()
	}
	s.Rules = rules
	return s
}

// canonicalForm returns the rule in canonical form.
func (r Rule) canonicalForm() Rule {
	if p, ok := parseCIDR(r.CIDR); ok {
		r.CIDR = p.String()
	}
	if r.FromPort != 0 && r.ToPort == 0 {
		r.ToPort = r.FromPort
	}
	return r
}

// parseCIDR parses a CIDR; an address without prefix length is a single host.
func parseCIDR(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// Check adds an error for each invalid field, with JSON paths below prefix ("spec"). It does not check that referenced
// groups exist.
func (s Spec) Check(c *fleet.Checks, prefix string) {
	fleet.CheckDescription(c, prefix+".description", s.Description)
	if len(s.Rules) > MaxRules {
		c.Add(prefix+".rules", "A group has at most %d rules. Create another group; a NIC can be in %d.", MaxRules, fleet.MaxNICGroups)
		return
	}
	ids, same := map[string]int{}, map[Rule]int{}
	for i, r := range s.Rules {
		at := fmt.Sprintf("%s.rules[%d]", prefix, i)
		r.check(c, at)
		if k, twice := ids[r.ID]; twice && r.ID != "" {
			c.Add(at+".id", "Rule %d already has this id. Omit the id of a new rule.", k+1)
		}
		ids[r.ID] = i
		r = r.canonicalForm()
		r.ID, r.Description = "", ""
		if k, twice := same[r]; twice {
			c.Add(at, "Rule %d is the same. Remove one of them.", k+1)
		}
		same[r] = i
	}
}

func (r Rule) check(c *fleet.Checks, at string) {
	if r.ID != "" && !isRuleID(r.ID) {
		c.Add(at+".id", "Omit the id of a new rule; the portal assigns one.")
	}
	if r.Direction != Ingress && r.Direction != Egress {
		c.Add(at+".direction", "The direction of a rule must be %q or %q.", Ingress, Egress)
	}
	if !slices.Contains(Protocols, r.Protocol) {
		c.Add(at+".protocol", "Choose a protocol: any, tcp, udp, icmp or icmpv6.")
	}
	r.checkPorts(c, at)
	p, isCIDR := parseCIDR(r.CIDR)
	switch {
	case r.CIDR != "" && r.GroupID != "":
		c.Add(at+".cidr", "The remote is addresses or a group, not both. Create two rules.")
	case r.GroupID != "" && !fleet.IsID(string(r.GroupID)):
		c.Add(at+".groupId", "There is no such security group.")
	case r.CIDR != "" && !isCIDR:
		c.Add(at+".cidr", "Enter addresses such as 10.0.0.0/24, 10.0.0.7 or 2001:db8::/64.")
	case r.CIDR != "" && r.Protocol == ICMP && p.Addr().Is6():
		c.Add(at+".cidr", "ICMP is for IPv4. For %s choose icmpv6.", p)
	case r.CIDR != "" && r.Protocol == ICMPv6 && p.Addr().Is4():
		c.Add(at+".cidr", "ICMPv6 is for IPv6. For %s choose icmp.", p)
	}
	if len(r.Description) > maxRuleText || !fleet.IsPlainText(r.Description) {
		c.Add(at+".description", "A rule's description is one line of at most %d bytes.", maxRuleText)
	}
}

func (r Rule) checkPorts(c *fleet.Checks, at string) {
	switch ported := r.Protocol == TCP || r.Protocol == UDP; {
	case r.FromPort == 0 && r.ToPort == 0:
	case !ported:
		c.Add(at+".fromPort", "Only tcp and udp have ports.")
	case r.FromPort < 1 || r.FromPort > HighestPort:
		c.Add(at+".fromPort", "A port is a number from 1 to %d.", HighestPort)
	case r.ToPort != 0 && (r.ToPort < r.FromPort || r.ToPort > HighestPort):
		c.Add(at+".toPort", "The last port is a number from the first, %d, to %d.", r.FromPort, HighestPort)
	}
}

func isRuleID(id string) bool {
	return len(id) == ruleIDLength && strings.Trim(id, "0123456789abcdef") == ""
}

// ReferencedGroups returns the groups that the rules have as remote, each once.
func (s Spec) ReferencedGroups() []fleet.SecurityGroupID {
	var out []fleet.SecurityGroupID
	for _, r := range s.Rules {
		if r.GroupID != "" && !slices.Contains(out, r.GroupID) {
			out = append(out, r.GroupID)
		}
	}
	return out
}

// Text returns the rule as short text: "in tcp 22 from 10.0.0.0/8". remote is the name of the referenced group.
func (r Rule) Text(remote string) string {
	way, side := "in ", " from "
	if r.Direction == Egress {
		way, side = "out ", " to "
	}
	what := string(r.Protocol)
	if ports := r.Ports(); ports != "" {
		what += " " + ports
	}
	switch {
	case r.CIDR != "":
		remote = r.CIDR
	case r.GroupID == "":
		remote = "anybody"
	}
	return way + what + side + remote
}

// Ports returns the ports as text: "22", "8000–8100"; empty: all, or the protocol has none.
func (r Rule) Ports() string {
	switch {
	case r.FromPort == 0:
		return ""
	case r.ToPort == 0 || r.ToPort == r.FromPort:
		return strconv.Itoa(r.FromPort)
	}
	return fmt.Sprintf("%d–%d", r.FromPort, r.ToPort)
}

// Status is a host's report on a group with NICs on the host.
type Status struct {
	Active bool   `json:"active"`          // the host applies the group's rules
	Error  string `json:"error,omitempty"` // why the rules are not applied; libvirt's own message if there is one
	Rules  int    `json:"rules,omitempty"` // number of rules after expansion to member addresses
	Drift  string `json:"drift,omitempty"` // difference on the host that was made outside Quantix, as text: it is unknown which rules are in effect
}

// Host is the status of a group on a host with NICs in it.
type Host struct {
	HostID   fleet.HostID `json:"hostId"`
	HostName string       `json:"hostName"`
	Status   *Status      `json:"status"`
	Revision int64        `json:"revision"` // newest revision that the host has acted on, successfully or not
	State    State        `json:"state"`
	Leaving  bool         `json:"leaving,omitempty"`
}

// State reports whether a group's newest rules are in effect on a host.
type State string

const (
	Applied    State = "applied"
	Pending    State = "pending"     // the host has not applied the newest revision yet
	NotApplied State = "not applied" // the host failed to apply the newest revision
	Unknown    State = "unknown"     // the host is offline
	Changed    State = "changed on the host"
)

// StateAt derives the state from the last report.
func (h Host) StateAt(revision int64, fresh bool) State {
	switch {
	case !fresh:
		return Unknown
	case h.Status != nil && h.Status.Error != "" && h.Revision >= revision:
		return NotApplied
	case h.Status == nil || !h.Status.Active || h.Revision < revision:
		return Pending
	case h.Status.Drift != "":
		return Changed
	}
	return Applied
}

// Severity returns the severity of the state in counts and on pages.
func (s State) Severity() fleet.Severity {
	switch s {
	case Applied:
		return fleet.SeverityOK
	case NotApplied, Changed:
		return fleet.SeverityBad
	case Unknown:
		return fleet.SeverityUnknown
	}
	return fleet.SeverityWarn
}

// Member is a NIC in a group.
type Member struct {
	VMID      fleet.VMID `json:"vmId"`
	VMName    string     `json:"vmName"`
	MAC       string     `json:"mac"`
	Addresses []string   `json:"addresses"` // addresses that its host last reported; empty while the VM is off
}

// View is a group as the API and pages show it.
type View struct {
	Group
	ProjectName string            `json:"projectName,omitempty"`
	Names       map[string]string `json:"names,omitempty"` // names of referenced groups by ID
	NICs        int               `json:"nics"`            // NICs in the group, of VMs that the user may see
	Members     []Member          `json:"members,omitempty"`
	// Hosts are the hosts of VMs whose NICs are in the group. Their names are set only for users who may see hosts.
	Hosts          []Host               `json:"hosts,omitempty"`
	SeverityCounts fleet.SeverityCounts `json:"severityCounts"`
	// Count: packets that the group's rules allowed; not set in lists
	Count *Count `json:"count,omitempty"`
}

// ObjectID returns the group's ID.
func (g Group) ObjectID() string { return string(g.ID) }
