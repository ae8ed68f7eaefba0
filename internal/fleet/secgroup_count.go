package fleet

import "time"

// Bounds of what a host tells of counters.
const (
	MaxCountedNICs  = 256  // in one report; of further cards nothing is counted
	MaxCountedRules = 4096 // of all these cards, those that nothing matched left out
)

// PassCount is what was counted of packets.
type PassCount struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
}

// Plus is the sum.
func (c PassCount) Plus(o PassCount) PassCount {
	return PassCount{c.Packets + o.Packets, c.Bytes + o.Bytes}
}

// RuleCount is what a rule let through.
type RuleCount struct {
	Rule string `json:"rule"`
	PassCount
}

// NICCount is what became of the packets of a running VM's network card since an agent began to count them. Answers are counted with the rule
// that let in, or out, what they answer.
type NICCount struct {
	ID      VMID        `json:"id"`
	MAC     string      `json:"mac"`
	SinceMs int64       `json:"sinceMs"`         // for how long it has been counted
	Rules   []RuleCount `json:"rules,omitempty"` // those that anything matched
	Dropped PassCount   `json:"dropped"`         // that no rule allowed
	Spoofed PassCount   `json:"spoofed"`         // that anti-spoofing dropped
}

// FilterCounts is what a host has counted at the cards whose packets it looks at.
type FilterCounts struct {
	AgoMs int64      `json:"agoMs"` // how long before telling it was read
	NICs  []NICCount `json:"cards"`
	Left  int        `json:"left,omitempty"`  // cards that are not told of, beyond the bounds
	Error string     `json:"error,omitempty"` // why nothing can be counted
}

// GroupCount is what the rules of a security group let through, at the cards of all VMs that the person may see.
type GroupCount struct {
	NICs    int         `json:"cards"` // that are counted; of the others it is not known
	Of      int         `json:"of"`    // cards in the group, of VMs that run
	Rules   []RuleCount `json:"rules"` // of the group, also those that nothing matched
	Dropped PassCount   `json:"dropped"`
	Since   *time.Time  `json:"since,omitempty"` // when the first of these cards began to be counted
	At      *time.Time  `json:"at,omitempty"`    // how old the oldest of it is
	Error   string      `json:"error,omitempty"` // why a host cannot count
}

// Rule is what the rule let through; known: it is counted.
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

// NICHits is what became of the packets of one network card.
type NICHits struct {
	At      time.Time    `json:"at"`
	Since   time.Time    `json:"since"`
	Rules   []NICRuleHit `json:"rules"` // of all its groups, also those that nothing matched
	Dropped PassCount    `json:"dropped"`
	Spoofed PassCount    `json:"spoofed"`
}

// NICRuleHit is what one rule let through a card.
type NICRuleHit struct {
	GroupID SecurityGroupID `json:"groupId"`
	Group   string          `json:"group"`
	Words   string          `json:"words"`
	RuleCount
}
