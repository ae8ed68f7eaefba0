package fleet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SecurityGroup says what may pass the network cards that are in it. It is a project's, or the fleet's: then every project may use it.
// A card in any group lets in nothing but what a rule of one of its groups allows, and lets out likewise; answers to what passed
// pass too. A card in no group lets all pass.
type SecurityGroup struct {
	ID         SecurityGroupID   `json:"id"`
	ProjectID  ProjectID         `json:"projectId,omitempty"` // empty: the fleet's
	Name       string            `json:"name"`                // unique in its project, or among the fleet's
	Spec       SecurityGroupSpec `json:"spec"`
	Generation int64             `json:"generation"` // of people's changes
	Revision   int64             `json:"revision"`   // of what hosts are to have: also of the members' addresses
	CreatedAt  time.Time         `json:"createdAt"`
	DeletedAt  *time.Time        `json:"deletedAt,omitempty"` // set: deletion is asked for; the group goes when the last of its hosts has removed it
}

// SecurityGroupSpec is what people say of a group.
type SecurityGroupSpec struct {
	Description string         `json:"description,omitempty"`
	Rules       []SecurityRule `json:"rules"`
}

// SecurityRule allows something.
type SecurityRule struct {
	ID          string          `json:"id"` // of the rule in its group; set by the portal when empty
	Direction   Direction       `json:"direction"`
	Protocol    Protocol        `json:"protocol"`
	FromPort    int             `json:"fromPort,omitempty"` // of tcp and udp: at the receiver; 0: all ports
	ToPort      int             `json:"toPort,omitempty"`   // 0: FromPort alone
	CIDR        string          `json:"cidr,omitempty"`     // the other side: addresses …
	GroupID     SecurityGroupID `json:"groupId,omitempty"`  // … or the cards that are in a group, this one perhaps; neither: anybody
	Description string          `json:"description,omitempty"`
}

// Direction is which way what a rule allows is begun.
type Direction string

const (
	Ingress Direction = "ingress" // to the card
	Egress  Direction = "egress"  // from it
)

// Protocol is what a rule or a packet is of.
type Protocol string

const (
	AnyProtocol Protocol = "any"
	TCP         Protocol = "tcp"
	UDP         Protocol = "udp"
	ICMP        Protocol = "icmp"
	ICMPv6      Protocol = "icmpv6"
)

// Protocols are those that rules know, in the order in which people choose.
var Protocols = []Protocol{AnyProtocol, TCP, UDP, ICMP, ICMPv6}

// Bounds of security groups.
const (
	MaxSecurityRules  = 100
	MaxNICGroups      = 8
	MaxProjectGroups  = 1000
	MaxNICAddresses   = 16   // of one card that count as a member's
	MaxFlatRules      = 4000 // that a group may come to on a host, each address of a member counted
	maxRuleText       = 200
	ruleIDLength      = 12
	highestPort       = 65535
	securityGroupWord = "security group"
)

// AllowAllOut is the rule that a new group begins with, unless its maker says others.
func AllowAllOut() SecurityRule { return SecurityRule{Direction: Egress, Protocol: AnyProtocol} }

// Tidy is the spec with the ids of its rules set, and its addresses as their networks: 10.0.0.7/24 is 10.0.0.0/24.
func (s SecurityGroupSpec) Tidy() SecurityGroupSpec {
	rules := make([]SecurityRule, len(s.Rules))
	for i, r := range s.Rules {
		if r.ID == "" {
			r.ID = strings.ReplaceAll(NewID[string](), "-", "")[32-ruleIDLength:]
		}
		rules[i] = r.tidy()
	}
	s.Rules = rules
	return s
}

// tidy is the rule in the one spelling of what it says.
func (r SecurityRule) tidy() SecurityRule {
	if p, ok := readCIDR(r.CIDR); ok {
		r.CIDR = p.String()
	}
	if r.FromPort != 0 && r.ToPort == 0 {
		r.ToPort = r.FromPort
	}
	return r
}

// readCIDR takes addresses without a length for one host.
func readCIDR(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// Check notes the spec's faults with JSON paths below prefix ("spec"). That a group is there which a rule names, the portal looks up.
func (s SecurityGroupSpec) Check(c *Checks, prefix string) {
	CheckDescription(c, prefix+".description", s.Description)
	if len(s.Rules) > MaxSecurityRules {
		c.Add(prefix+".rules", "A group has at most %d rules. Make another group; a card can be in %d.", MaxSecurityRules, MaxNICGroups)
		return
	}
	ids, same := map[string]int{}, map[SecurityRule]int{}
	for i, r := range s.Rules {
		at := fmt.Sprintf("%s.rules[%d]", prefix, i)
		r.check(c, at)
		if k, twice := ids[r.ID]; twice && r.ID != "" {
			c.Add(at+".id", "Rule %d has this id already. Leave the id of a new rule out.", k+1)
		}
		ids[r.ID] = i
		r = r.tidy()
		r.ID, r.Description = "", ""
		if k, twice := same[r]; twice {
			c.Add(at, "Rule %d says the same. Remove one of them.", k+1)
		}
		same[r] = i
	}
}

func (r SecurityRule) check(c *Checks, at string) {
	if r.ID != "" && !isRuleID(r.ID) {
		c.Add(at+".id", "Leave the id of a new rule out; the portal gives it one.")
	}
	if r.Direction != Ingress && r.Direction != Egress {
		c.Add(at+".direction", "A rule is for %q or %q.", Ingress, Egress)
	}
	if !slices.Contains(Protocols, r.Protocol) {
		c.Add(at+".protocol", "Choose a protocol: any, tcp, udp, icmp or icmpv6.")
	}
	r.checkPorts(c, at)
	p, isCIDR := readCIDR(r.CIDR)
	switch {
	case r.CIDR != "" && r.GroupID != "":
		c.Add(at+".cidr", "The other side is addresses or a group, not both. Make two rules.")
	case r.GroupID != "" && !IsID(string(r.GroupID)):
		c.Add(at+".groupId", "There is no such security group.")
	case r.CIDR != "" && !isCIDR:
		c.Add(at+".cidr", "Give addresses such as 10.0.0.0/24, 10.0.0.7 or 2001:db8::/64.")
	case r.CIDR != "" && r.Protocol == ICMP && p.Addr().Is6():
		c.Add(at+".cidr", "ICMP is of IPv4. For %s choose icmpv6.", p)
	case r.CIDR != "" && r.Protocol == ICMPv6 && p.Addr().Is4():
		c.Add(at+".cidr", "ICMPv6 is of IPv6. For %s choose icmp.", p)
	}
	if len(r.Description) > maxRuleText || !plain(r.Description) {
		c.Add(at+".description", "A rule's description is one line of at most %d bytes.", maxRuleText)
	}
}

func (r SecurityRule) checkPorts(c *Checks, at string) {
	switch ported := r.Protocol == TCP || r.Protocol == UDP; {
	case r.FromPort == 0 && r.ToPort == 0:
	case !ported:
		c.Add(at+".fromPort", "Only tcp and udp have ports.")
	case r.FromPort < 1 || r.FromPort > highestPort:
		c.Add(at+".fromPort", "A port is a number from 1 to %d.", highestPort)
	case r.ToPort != 0 && (r.ToPort < r.FromPort || r.ToPort > highestPort):
		c.Add(at+".toPort", "The last port is a number from the first, %d, to %d.", r.FromPort, highestPort)
	}
}

func isRuleID(id string) bool {
	return len(id) == ruleIDLength && strings.Trim(id, "0123456789abcdef") == ""
}

// Refers lists the groups that rules name as the other side, each once.
func (s SecurityGroupSpec) Refers() []SecurityGroupID {
	var out []SecurityGroupID
	for _, r := range s.Rules {
		if r.GroupID != "" && !slices.Contains(out, r.GroupID) {
			out = append(out, r.GroupID)
		}
	}
	return out
}

// Words are the rule in a few words: "in tcp 22 from 10.0.0.0/8". remote names the group that it refers to.
func (r SecurityRule) Words(remote string) string {
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

// Ports are the ports in words: "22", "8000–8100"; empty: all, or the protocol has none.
func (r SecurityRule) Ports() string {
	switch {
	case r.FromPort == 0:
		return ""
	case r.ToPort == 0 || r.ToPort == r.FromPort:
		return strconv.Itoa(r.FromPort)
	}
	return fmt.Sprintf("%d–%d", r.FromPort, r.ToPort)
}

// SecurityGroupStatus is what a host says of a group that cards there are in.
type SecurityGroupStatus struct {
	Active bool   `json:"active"`          // the group is on the host as it was asked for
	Error  string `json:"error,omitempty"` // why not, in the words of libvirt where there are any
	Rules  int    `json:"rules,omitempty"` // how many it came to, each member's address counted
	Drift  string `json:"drift,omitempty"` // what somebody changed of it on the host since, in words: nobody knows what passes
}

// SecurityGroupHost is a group on one of the hosts that have cards in it.
type SecurityGroupHost struct {
	HostID   HostID               `json:"hostId"`
	HostName string               `json:"hostName"`
	Status   *SecurityGroupStatus `json:"status"`
	Revision int64                `json:"revision"` // that the host has acted on
	State    SecurityGroupState   `json:"state"`
	Leaving  bool                 `json:"leaving,omitempty"`
}

// SecurityGroupState is whether a group's newest rules count on a host.
type SecurityGroupState string

const (
	GroupApplied    SecurityGroupState = "applied"
	GroupPending    SecurityGroupState = "pending"     // the host has yet to take the newest
	GroupNotApplied SecurityGroupState = "not applied" // it could not
	GroupUnknown    SecurityGroupState = "unknown"     // it is not heard
	GroupChanged    SecurityGroupState = "changed on the host"
)

// StateAt derives the state from what the host said last.
func (h SecurityGroupHost) StateAt(revision int64, fresh bool) SecurityGroupState {
	switch {
	case !fresh:
		return GroupUnknown
	case h.Status != nil && h.Status.Error != "" && h.Revision >= revision:
		return GroupNotApplied
	case h.Status == nil || !h.Status.Active || h.Revision < revision:
		return GroupPending
	case h.Status.Drift != "":
		return GroupChanged
	}
	return GroupApplied
}

// Severity is how the state is drawn and counted.
func (s SecurityGroupState) Severity() Severity {
	switch s {
	case GroupApplied:
		return SeverityOK
	case GroupNotApplied, GroupChanged:
		return SeverityBad
	case GroupUnknown:
		return SeverityUnknown
	}
	return SeverityWarn
}

// SecurityGroupMember is a card that is in a group.
type SecurityGroupMember struct {
	VMID      VMID     `json:"vmId"`
	VMName    string   `json:"vmName"`
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"` // as its host last said; a VM that is off has none
}

// SecurityGroupView is a group as people see it.
type SecurityGroupView struct {
	SecurityGroup
	ProjectName    string                `json:"projectName,omitempty"`
	Names          map[string]string     `json:"names,omitempty"` // of the groups that rules refer to, by id
	NICs           int                   `json:"cards"`           // that are in it, of VMs that the person may see
	Members        []SecurityGroupMember `json:"members,omitempty"`
	Hosts          []SecurityGroupHost   `json:"hosts,omitempty"` // where it is; to who may see hosts their names
	SeverityCounts SeverityCounts        `json:"tones"`
	Count          *GroupCount           `json:"count,omitempty"` // what its rules let through; told of one group alone
}

// SecurityGroupKeys are what the filter of their list knows.
var SecurityGroupKeys = FilterKeys{{"name", "its name", nil}}
