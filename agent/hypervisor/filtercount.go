package hypervisor

import (
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// NICPacketCounts has the packet counters of a NIC, by chain. A chain maps rule IDs to counts; dropped packets are
// under Dropped and Spoofed. A rewrite of a chain's rules resets all counters of the chain.
type NICPacketCounts struct {
	VM     fleet.VMID
	MAC    string
	Chains map[string]map[string]secgroup.PassCount
}

// These keys of a chain are not rules.
const (
	DroppedKey = "dropped"
	SpoofedKey = "spoofed"
)

// RuleIDOfComment returns the rule's ID from a rule's comment on the host. It is empty if Quantix did not create the
// rule.
func RuleIDOfComment(comment string) string {
	id, ours := strings.CutPrefix(comment, RuleCommentPrefix)
	if !ours || id == DroppedKey || id == SpoofedKey {
		return ""
	}
	return id
}

// RuleCommentPrefix is the prefix of rule comments on the host. The rule's ID follows the prefix.
const RuleCommentPrefix = "quantix-rule-"

// ParseFilterName returns the VM and the MAC address in a filter's name: see FilterName. ok is false for another name.
func ParseFilterName(name string) (vm fleet.VMID, mac string, ok bool) {
	rest, ours := strings.CutPrefix(name, secgroup.FilterPrefix+"nic-")
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
