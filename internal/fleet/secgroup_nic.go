package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// checkGroups notes faults of the groups that the card is in. Which there are, the portal looks up.
func (n NIC) checkGroups(c *Checks, at string) {
	if len(n.SecurityGroups) > MaxNICGroups {
		c.Add(at+".securityGroups", "A network card is in at most %d security groups.", MaxNICGroups)
	}
	for i, id := range n.SecurityGroups {
		switch {
		case !IsID(string(id)):
			c.Add(fmt.Sprintf("%s.securityGroups[%d]", at, i), "There is no such security group.")
		case slices.Index(n.SecurityGroups, id) < i:
			c.Add(fmt.Sprintf("%s.securityGroups[%d]", at, i), "The card is in this security group already.")
		}
	}
}

// Guarded reports whether the card's guest may use no other address than the card's.
func (n NIC) Guarded() bool { return n.AntiSpoofing != nil && *n.AntiSpoofing }

// Filtered reports whether a host has to look at what passes the card.
func (n NIC) Filtered() bool { return n.Guarded() || len(n.SecurityGroups) > 0 }

// filterReported is what of it a definition on a host tells.
func (n NIC) filterReported() string {
	if !n.Filtered() {
		return ""
	}
	return fmt.Sprint(n.SecurityGroups, n.Guarded())
}

// SameFilter reports whether what passes both cards is decided alike.
func (n NIC) SameFilter(o NIC) bool { return n.filterReported() == o.filterReported() }

// Defaulted is the card with what its port group gives it: what it names itself stays. old is the card before; nil: it is new. A card that has
// what its port group gave it, and is asked for with just that, follows its port group on; one that no longer has such a port group is in no group.
func (n NIC) Defaulted(old *NIC, by *PortGroup) NIC {
	if by == nil {
		by = &PortGroup{}
	}
	followed := old != nil && old.DefaultGroups && slices.Equal(n.TidyFilter().SecurityGroups, old.TidyFilter().SecurityGroups)
	n.DefaultGroups = false
	if followed || len(n.SecurityGroups) == 0 {
		n.SecurityGroups, n.DefaultGroups = slices.Clone(by.SecurityGroups), len(by.SecurityGroups) > 0
	}
	followed = old != nil && old.DefaultAntiSpoofing && (n.AntiSpoofing == nil || n.Guarded() == old.Guarded())
	n.DefaultAntiSpoofing = by.AntiSpoofing != nil && (followed || old == nil && n.AntiSpoofing == nil)
	if n.DefaultAntiSpoofing {
		guard := *by.AntiSpoofing
		n.AntiSpoofing = &guard
	}
	return n
}

// TidyFilter is the card with its groups in order, each once, and without what says nothing.
func (n NIC) TidyFilter() NIC {
	n.SecurityGroups = slices.Compact(slices.Sorted(slices.Values(n.SecurityGroups)))
	if len(n.SecurityGroups) == 0 {
		n.SecurityGroups = nil
	}
	if !n.Guarded() {
		n.AntiSpoofing = nil
	}
	return n
}

// SecurityGroups lists the groups that cards of the spec are in, each once.
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

// nicFiltered is what a card's words say of what passes it.
func nicFiltered(n NIC) string {
	var words []string
	switch len(n.SecurityGroups) {
	case 0:
	case 1:
		words = append(words, "in 1 "+securityGroupWord)
	default:
		words = append(words, fmt.Sprintf("in %d %ss", len(n.SecurityGroups), securityGroupWord))
	}
	if n.Guarded() {
		words = append(words, "anti-spoofing on")
	}
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

// nicRefiltered is the change of a card of which only what passes it is another.
func nicRefiltered(old, to NIC) string {
	was, now := old, to
	was.SecurityGroups, was.AntiSpoofing = now.SecurityGroups, now.AntiSpoofing
	was.DefaultGroups, was.DefaultAntiSpoofing = now.DefaultGroups, now.DefaultAntiSpoofing
	if !reflect.DeepEqual(was, now) {
		return ""
	}
	var words []string
	if n := without(to.SecurityGroups, old.SecurityGroups); n > 0 {
		words = append(words, fmt.Sprintf("into %d more %s", n, plural(n, securityGroupWord)))
	}
	if n := without(old.SecurityGroups, to.SecurityGroups); n > 0 {
		words = append(words, fmt.Sprintf("out of %d %s", n, plural(n, securityGroupWord)))
	}
	if old.Guarded() != to.Guarded() {
		words = append(words, map[bool]string{true: "anti-spoofing on", false: "anti-spoofing off"}[to.Guarded()])
	}
	switch {
	case len(words) > 0:
	case old.DefaultGroups != to.DefaultGroups || old.DefaultAntiSpoofing != to.DefaultAntiSpoofing:
		words = []string{map[bool]string{true: "what passes it follows its port group", false: "what passes it is its own"}[to.DefaultGroups || to.DefaultAntiSpoofing]}
	default:
		words = []string{"security groups in another order"}
	}
	return to.MAC + " " + strings.Join(words, ", ")
}

// without counts those of a that b lacks.
func without(a, b []SecurityGroupID) (n int) {
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

// NICFilter is what passes a network card of a VM, and whether its host does that.
type NICFilter struct {
	MAC          string             `json:"mac"`
	AntiSpoofing bool               `json:"antiSpoofing"`
	Groups       []NICGroup         `json:"groups"`
	State        SecurityGroupState `json:"state,omitempty"`       // empty: nothing is asked of its host
	Problem      string             `json:"problem,omitempty"`     // why it is not applied, in the host's words where there are any
	Foreign      string             `json:"foreign,omitempty"`     // the network filter that somebody else gave the card on the host
	PortGroup    string             `json:"portGroup,omitempty"`   // which the card follows in what is named below; empty: all is the card's own
	ByPortGroup  []string           `json:"byPortGroup,omitempty"` // "securityGroups", "antiSpoofing"
	Hits         *NICHits           `json:"hits,omitempty"`        // what its rules let through; nil: not known
}

// NICGroup is a group that a card is in.
type NICGroup struct {
	ID    SecurityGroupID    `json:"id"`
	Name  string             `json:"name"`
	Rules int                `json:"rules"`
	State SecurityGroupState `json:"state"`
	Error string             `json:"error,omitempty"`
}

// FilterPrefix begins the names of the network filters that Quantix defines on hosts.
const FilterPrefix = "quantix-"

// Worst is the state of the group that is worst off.
func (c NICFilter) Worst() SecurityGroupState {
	worst := GroupApplied
	order := []SecurityGroupState{GroupApplied, GroupPending, GroupUnknown, GroupChanged, GroupNotApplied}
	for _, g := range c.Groups {
		if slices.Index(order, g.State) > slices.Index(order, worst) {
			worst = g.State
		}
	}
	if len(c.Groups) == 0 && !c.AntiSpoofing {
		return ""
	}
	return worst
}

// Settle adds what the VM's host says of the card itself: a card that shall be filtered has a filter of Quantix's there.
func (c *NICFilter) Settle(vm VM) {
	for _, g := range c.Groups {
		if (g.State == GroupNotApplied || g.State == GroupChanged) && c.Problem == "" {
			c.Problem = g.Name + ": " + g.Error
		}
	}
	if vm.Status == nil {
		return
	}
	i := slices.IndexFunc(vm.Status.NICs, func(s NICState) bool { return strings.EqualFold(s.MAC, c.MAC) })
	if i < 0 {
		return
	}
	filter := vm.Status.NICs[i].Filter
	if said := vm.Status.NICs[i].FilterDrift; said != "" && c.State != GroupUnknown {
		c.State, c.Problem = GroupChanged, said
	}
	ours := strings.HasPrefix(filter, FilterPrefix)
	if filter != "" && !ours {
		c.Foreign = filter
	}
	switch {
	case c.State == "" || ours || c.State == GroupUnknown:
	case vm.ObservedGeneration < vm.Generation:
		c.State = GroupPending
	default:
		c.State = GroupNotApplied
		if c.Problem == "" {
			c.Problem = "The card has no network filter of Quantix on its host."
			if vm.Status.Error != "" {
				c.Problem = vm.Status.Error
			} else if c.Foreign != "" {
				c.Problem = "Somebody gave the card the network filter " + c.Foreign + " on the host."
			}
		}
	}
}
