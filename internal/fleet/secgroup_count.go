package fleet

import "time"

// Bounds of the counters in a host's report.
const (
	MaxCountedNICs  = 256  // counted NICs per report; further NICs are not counted
	MaxCountedRules = 4096 // rules with matches over all these NICs
)

// PassCount counts packets and bytes.
type PassCount struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
}

// Plus returns the sum of both counts.
func (c PassCount) Plus(o PassCount) PassCount {
	return PassCount{c.Packets + o.Packets, c.Bytes + o.Bytes}
}

// RuleCount counts what a rule allowed.
type RuleCount struct {
	Rule string `json:"rule"`
	PassCount
}

// NICCount counts the packets of a running VM's NIC since its agent started counting. Replies count for the rule that
// allowed the connection.
type NICCount struct {
	ID      VMID        `json:"id"`
	MAC     string      `json:"mac"`
	SinceMs int64       `json:"sinceMs"`         // duration of counting
	Rules   []RuleCount `json:"rules,omitempty"` // only rules with matches
	Dropped PassCount   `json:"dropped"`         // packets that no rule allowed
	Spoofed PassCount   `json:"spoofed"`         // packets dropped by anti-spoofing
}

// FilterCounts are the packet counters of a host's NICs.
type FilterCounts struct {
	AgoMs int64      `json:"agoMs"` // age of the counters when they were sent
	NICs  []NICCount `json:"nics"`
	Left  int        `json:"left,omitempty"`  // number of omitted NICs, beyond the bounds
	Error string     `json:"error,omitempty"` // why the host cannot count
}

// GroupCount counts what the rules of a security group allowed, over the NICs of all VMs that the user may see.
type GroupCount struct {
	NICs    int         `json:"nics"`  // counted NICs; the others are unknown
	Of      int         `json:"of"`    // NICs in the group of running VMs
	Rules   []RuleCount `json:"rules"` // all rules of the group, with and without matches
	Dropped PassCount   `json:"dropped"`
	Since   *time.Time  `json:"since,omitempty"` // earliest start of counting
	At      *time.Time  `json:"at,omitempty"`    // time of the oldest counter
	Error   string      `json:"error,omitempty"` // why a host cannot count
}

// Rule returns the count of a rule; known is false if nothing is counted.
func (c *GroupCount) Rule(id string) (n PassCount, known bool) {
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
	Rules   []NICRuleHit `json:"rules"` // rules of all its groups, with and without matches
	Dropped PassCount    `json:"dropped"`
	Spoofed PassCount    `json:"spoofed"`
}

// NICRuleHit counts what one rule allowed for a NIC.
type NICRuleHit struct {
	GroupID SecurityGroupID `json:"groupId"`
	Group   string          `json:"group"`
	Words   string          `json:"words"`
	RuleCount
}
