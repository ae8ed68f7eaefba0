package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// HostRules is the state of one host for checking a VM's placement rules.
type HostRules struct {
	Matches    []RuleMatches // for each rule of the VM, in order
	ExcludedBy []string      // names of VMs on the host whose rules exclude the VM to place
	VM         fleet.Meta    // name and labels of the VM to place
}

// RuleMatches counts the other VMs that match a rule.
type RuleMatches struct {
	OnHost, InFleet int    // numbers of matching VMs on this host, and on all hosts
	ExampleVM       string // one of the VMs on this host
}

// brokenRuleText returns how the host breaks rule i: a sentence, and a phrase without the host's name. Both are empty
// if the host satisfies the rule.
func (h Host) brokenRuleText(i int, r fleet.PlacementRule) (why, plain string) {
	if h.Rules == nil {
		return "", ""
	}
	if r.NamesHosts() {
		if r.Matches(h.Name, h.Spec.Labels) != r.Apart {
			return "", ""
		}
		return "The VM " + r.Text() + ".", "the VM " + r.TextWithoutHosts()
	}
	m := h.Rules.Matches[i]
	switch {
	case r.Apart && m.OnHost > 0:
		also := ""
		if m.OnHost > 1 {
			also = fmt.Sprintf(" and %d more", m.OnHost-1)
		}
		return fmt.Sprintf("%s has %s%s, and the VM %s.", h.Name, m.ExampleVM, also, r.Text()), "the VM " + r.Text()
	case !r.Apart && m.OnHost == 0 && m.InFleet > 0:
		return fmt.Sprintf("%s has no such VM, and the VM %s.", h.Name, r.Text()), "the VM " + r.Text()
	case !r.Apart && m.InFleet == 0 && !r.Matches(h.Rules.VM.Name, h.Rules.VM.Labels):
		return fmt.Sprintf("The VM %s, and there is no such VM in the project.", r.Text()), "the VM " + r.Text() + ", and there is no such VM"
	}
	return "", ""
}

// checkRules adds faults for a host that takes no VMs, for taints that the VM does not tolerate, and for required rules
// that the host breaks.
func (f *faultCheck) checkRules(spec fleet.VMSpec) {
	if f.host.Rules == nil {
		return
	}
	if !f.host.Spec.Schedulable {
		f.addFault("hostId", "cordoned", "%s is cordoned: no VM is placed on it.", f.host.Name)
	}
	if !f.host.Spec.Roles.Compute {
		f.addFault("hostId", "not a compute host", "%s does not have the role compute: no VM is placed on it.", f.host.Name)
	}
	if bad := spec.Placement.Untolerated(f.host.Spec.Taints, fleet.NoSchedule, fleet.NoExecute); len(bad) > 0 {
		names := make([]string, len(bad))
		for i, t := range bad {
			names[i] = t.NameText()
		}
		f.addFault("hostId", "reserved for other VMs by a taint", "%s has the taint %s, which the VM does not tolerate.", f.host.Name, strings.Join(names, ", "))
	}
	for i, r := range spec.Rules {
		if why, plain := f.host.brokenRuleText(i, r); why != "" && !r.Preferred {
			f.addFault(fmt.Sprintf("spec.rules[%d].name", i), plain, "%s", why)
		}
	}
	if by := f.host.Rules.ExcludedBy; len(by) > 0 {
		more := ""
		if len(by) > 1 {
			more = fmt.Sprintf(" and %d more", len(by)-1)
		}
		f.addFault("hostId", "VMs that must be apart from this VM", "%s has %s%s, which must be apart from this VM.", f.host.Name, by[0], more)
	}
}

// brokenPreferences counts the reasons to prefer another host: broken preferred rules, PreferNoSchedule taints that the
// VM does not tolerate, and the role controlPlane.
func (h Host) brokenPreferences(spec fleet.VMSpec) int {
	n := len(h.BrokenPreferredRules(spec.Rules)) + len(spec.Placement.Untolerated(h.Spec.Taints, fleet.PreferNoSchedule))
	if h.Spec.Roles.ControlPlane {
		n++
	}
	return n
}

// BrokenPreferredRules returns the preferred rules that the host breaks, as text.
func (h Host) BrokenPreferredRules(all []fleet.PlacementRule) (out []string) {
	for i, r := range all {
		if why, _ := h.brokenRuleText(i, r); why != "" && r.Preferred {
			out = append(out, strings.TrimSuffix(r.Text(), "."))
		}
	}
	return out
}

// BrokenRequiredRules returns the indexes of the required rules that the VM's host breaks. An affinity rule is not
// broken when none of the VMs that it names exists.
func BrokenRequiredRules(all []fleet.PlacementRule, h Host) []int {
	out := []int{}
	for i, r := range all {
		unmatched := !r.NamesHosts() && !r.Apart && h.Rules != nil && h.Rules.Matches[i].InFleet == 0
		if why, _ := h.brokenRuleText(i, r); why != "" && !r.Preferred && !unmatched {
			out = append(out, i)
		}
	}
	return out
}
