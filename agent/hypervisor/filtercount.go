package hypervisor

import (
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// CountedNIC holds a NIC's packet counters. Counters of one chain are reset together, when its rules are rewritten. A
// chain maps rule ids to counts; dropped packets are under Dropped and Spoofed.
type CountedNIC struct {
	VM     fleet.VMID
	MAC    string
	Chains map[string]map[string]fleet.PassCount
}

// Keys of a chain that are no rules.
const (
	Dropped = "dropped"
	Spoofed = "spoofed"
)

// RuleOf returns the rule's id from a rule's comment on the host; empty: not a Quantix rule.
func RuleOf(comment string) string {
	id, ours := strings.CutPrefix(comment, RuleNote)
	if !ours || id == Dropped || id == Spoofed {
		return ""
	}
	return id
}

// RuleNote is the prefix of rule comments on the host; the rule's id follows.
const RuleNote = "quantix-rule-"

// NICOfFilter returns the VM and the MAC address of a filter's name: see FilterName.
func NICOfFilter(name string) (vm fleet.VMID, mac string, ok bool) {
	rest, ours := strings.CutPrefix(name, fleet.FilterPrefix+"nic-")
	digits, id, whole := strings.Cut(rest, "-")
	if !ours || !whole || len(digits) != 12 || !fleet.IsID(id) {
		return "", "", false
	}
	parts := make([]string, 0, 6)
	for pair := range slices.Chunk([]byte(digits), 2) {
		parts = append(parts, string(pair))
	}
	return fleet.VMID(id), strings.Join(parts, ":"), true
}
