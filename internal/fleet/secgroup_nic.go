package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// MaxNICGroups is the maximum number of security groups of a NIC.
const MaxNICGroups = 8

const securityGroupWord = "security group"

// checkSecurityGroups adds an error for each invalid group of the NIC. It does not check that the groups exist.
func (n NIC) checkSecurityGroups(c *Checks, at string) {
	if len(n.SecurityGroups) > MaxNICGroups {
		c.Add(at+".securityGroups", "A NIC is in at most %d security groups.", MaxNICGroups)
	}
	for i, id := range n.SecurityGroups {
		switch {
		case !IsID(string(id)):
			c.Add(fmt.Sprintf("%s.securityGroups[%d]", at, i), "There is no such security group.")
		case slices.Index(n.SecurityGroups, id) < i:
			c.Add(fmt.Sprintf("%s.securityGroups[%d]", at, i), "The NIC is already in this security group.")
		}
	}
}

// HasAntiSpoofing reports whether anti-spoofing restricts the guest to the NIC's own addresses.
func (n NIC) HasAntiSpoofing() bool { return n.AntiSpoofing != nil && *n.AntiSpoofing }

// NeedsFilter reports whether the host must filter the NIC's traffic.
func (n NIC) NeedsFilter() bool { return n.HasAntiSpoofing() || len(n.SecurityGroups) > 0 }

// reportedFilterText returns those filter settings of the NIC that a host's definition stores.
func (n NIC) reportedFilterText() string {
	if !n.NeedsFilter() {
		return ""
	}
	return fmt.Sprint(n.SecurityGroups, n.HasAntiSpoofing())
}

// HasSameFilter reports whether both NICs are filtered in the same way.
func (n NIC) HasSameFilter(o NIC) bool { return n.reportedFilterText() == o.reportedFilterText() }

// WithPortGroupDefaults returns the NIC with the port group's defaults for unset settings. old is the NIC before the
// edit; nil: a new NIC. If an edit repeats the port group's values, the NIC continues to follow the port group. A NIC
// that followed a port group and is no longer in one loses the port group's security groups.
func (n NIC) WithPortGroupDefaults(old *NIC, by *PortGroup) NIC {
	if by == nil {
		by = &PortGroup{}
	}
	followed := old != nil && old.DefaultGroups && slices.Equal(n.WithNormalizedFilter().SecurityGroups, old.WithNormalizedFilter().SecurityGroups)
	n.DefaultGroups = false
	if followed || len(n.SecurityGroups) == 0 {
		n.SecurityGroups, n.DefaultGroups = slices.Clone(by.SecurityGroups), len(by.SecurityGroups) > 0
	}
	followed = old != nil && old.DefaultAntiSpoofing && (n.AntiSpoofing == nil || n.HasAntiSpoofing() == old.HasAntiSpoofing())
	n.DefaultAntiSpoofing = by.AntiSpoofing != nil && (followed || old == nil && n.AntiSpoofing == nil)
	if n.DefaultAntiSpoofing {
		guard := *by.AntiSpoofing
		n.AntiSpoofing = &guard
	}
	return n
}

// WithNormalizedFilter returns the NIC with its groups sorted, each once. If anti-spoofing is disabled, it is unset.
func (n NIC) WithNormalizedFilter() NIC {
	n.SecurityGroups = slices.Compact(slices.Sorted(slices.Values(n.SecurityGroups)))
	if len(n.SecurityGroups) == 0 {
		n.SecurityGroups = nil
	}
	if !n.HasAntiSpoofing() {
		n.AntiSpoofing = nil
	}
	return n
}

// SecurityGroups lists the groups of the spec's NICs, each once.
func (s VMSpec) SecurityGroups() []SecurityGroupID {
	var ids []SecurityGroupID
	for _, n := range s.NICs {
		for _, id := range n.SecurityGroups {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// nicFilterText returns the NIC's filter settings as text.
func nicFilterText(n NIC) string {
	var words []string
	switch len(n.SecurityGroups) {
	case 0:
	case 1:
		words = append(words, "in 1 "+securityGroupWord)
	default:
		words = append(words, fmt.Sprintf("in %d %ss", len(n.SecurityGroups), securityGroupWord))
	}
	if n.HasAntiSpoofing() {
		words = append(words, "anti-spoofing on")
	}
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

// nicFilterChangeText returns the text of a change that affects only the NIC's filter. It is empty for every other
// change.
func nicFilterChangeText(old, to NIC) string {
	was, now := old, to
	was.SecurityGroups, was.AntiSpoofing = now.SecurityGroups, now.AntiSpoofing
	was.DefaultGroups, was.DefaultAntiSpoofing = now.DefaultGroups, now.DefaultAntiSpoofing
	if !reflect.DeepEqual(was, now) {
		return ""
	}
	var words []string
	if n := countMissing(to.SecurityGroups, old.SecurityGroups); n > 0 {
		words = append(words, fmt.Sprintf("into %d more %s", n, plural(n, securityGroupWord)))
	}
	if n := countMissing(old.SecurityGroups, to.SecurityGroups); n > 0 {
		words = append(words, fmt.Sprintf("out of %d %s", n, plural(n, securityGroupWord)))
	}
	if old.HasAntiSpoofing() != to.HasAntiSpoofing() {
		words = append(words, map[bool]string{true: "anti-spoofing on", false: "anti-spoofing off"}[to.HasAntiSpoofing()])
	}
	switch {
	case len(words) > 0:
	case old.DefaultGroups != to.DefaultGroups || old.DefaultAntiSpoofing != to.DefaultAntiSpoofing:
		words = []string{map[bool]string{true: "filter of its port group", false: "filter of its own"}[to.DefaultGroups || to.DefaultAntiSpoofing]}
	default:
		words = []string{"security groups in another order"}
	}
	return to.MAC + " " + strings.Join(words, ", ")
}

// countMissing counts the elements of a that are missing in b.
func countMissing(a, b []SecurityGroupID) (n int) {
	for _, id := range a {
		if !slices.Contains(b, id) {
			n++
		}
	}
	return n
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
