package secgroup

import (
	"time"

	"quantix/internal/fleet"
)

// Bounds of the counters in a host's report.
const (
	MaxCountedNICs  = 256  // counted NICs per report; further NICs are not counted
	MaxCountedRules = 4096 // rules with matches over all these NICs
)

// PassCount counts network traffic in packets and bytes.
type PassCount struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
}

// Plus returns the sum of both counts.
func (c PassCount) Plus(o PassCount) PassCount {
	return PassCount{c.Packets + o.Packets, c.Bytes + o.Bytes}
}

// RuleCount counts the traffic that a rule allowed.
type RuleCount struct {
	Rule string `json:"rule"`
	PassCount
}

// NICCount counts the packets of a running VM's NIC since the agent started to count. A reply counts for the rule that
// allowed its connection.
type NICCount struct {
	ID      fleet.VMID  `json:"id"`
	MAC     string      `json:"mac"`
	SinceMs int64       `json:"sinceMs"`         // duration of counting
	Rules   []RuleCount `json:"rules,omitempty"` // only rules with matches
	Dropped PassCount   `json:"dropped"`         // packets that no rule allowed
	Spoofed PassCount   `json:"spoofed"`         // packets dropped by anti-spoofing
}

// FilterCounts are the packet counters of the security group rules on a host's NICs.
type FilterCounts struct {
	AgoMs int64      `json:"agoMs"` // age of the counters when they were sent
	NICs  []NICCount `json:"nics"`
	Left  int        `json:"left,omitempty"`  // number of NICs left out because of MaxCountedNICs and MaxCountedRules
	Error string     `json:"error,omitempty"` // why the host cannot count
}

// Count counts the traffic that a security group's rules allowed, over the NICs of all VMs that the user may see.
type Count struct {
	NICs    int         `json:"nics"`  // NICs with counters; the counts of other NICs are unknown
	Of      int         `json:"of"`    // NICs of running VMs in the group
	Rules   []RuleCount `json:"rules"` // all rules of the group, also rules without matches
	Dropped PassCount   `json:"dropped"`
	Since   *time.Time  `json:"since,omitempty"` // earliest start of counting
	At      *time.Time  `json:"at,omitempty"`    // time of the oldest counter among the NICs
	Error   string      `json:"error,omitempty"` // why a host cannot count
}

// CountOfRule returns the count of the rule with the ID; known is false if no NIC is counted.
func (c *Count) CountOfRule(id string) (n PassCount, known bool) {
	if c == nil || c.NICs == 0 {
		return n, false
	}
	for _, r := range c.Rules {
		if r.Rule == id {
			return r.PassCount, true
		}
	}
	return n, false
}

// NICHits counts the packets of one NIC.
type NICHits struct {
	At      time.Time    `json:"at"`
	Since   time.Time    `json:"since"`
	Rules   []NICRuleHit `json:"rules"` // rules of all groups of the NIC, also rules without matches
	Dropped PassCount    `json:"dropped"`
	Spoofed PassCount    `json:"spoofed"`
}

// NICRuleHit counts the traffic that one rule allowed on a NIC.
type NICRuleHit struct {
	GroupID fleet.SecurityGroupID `json:"groupId"`
	Group   string                `json:"group"`
	Words   string                `json:"words"`
	RuleCount
}
