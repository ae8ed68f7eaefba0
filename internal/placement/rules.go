package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// Ruling is the state of one host for checking a VM's placement rules.
type Ruling struct {
	Labels  map[string]string // of the host
	Taints  []string          // of the host
	Mates   []Mates           // for each rule of the VM, in order
	Shunned []string          // names of VMs on the host whose rules exclude the VM to place
	Self    fleet.Meta        // name and labels of the VM to place
}

// Mates counts the other VMs that match a rule.
type Mates struct {
	Here, All int    // on this host, and on all hosts
	Name      string // one of the VMs here
}

// breaks returns how the host breaks rule i: a sentence, and a phrase without the host's name. Both are empty if the
// host satisfies the rule.
func (h Host) breaks(i int, r fleet.PlacementRule) (why, plain string) {
	if h.Rules == nil {
		return "", ""
	}
	if r.OnHosts() {
		if r.Names(h.Name, h.Rules.Labels) != r.Apart {
			return "", ""
		}
		return "The VM " + r.Says() + ".", "the VM " + r.Plain()
	}
	m := h.Rules.Mates[i]
	switch {
	case r.Apart && m.Here > 0:
		also := ""
		if m.Here > 1 {
			also = fmt.Sprintf(" and %d more", m.Here-1)
		}
		return fmt.Sprintf("%s has %s%s, and the VM %s.", h.Name, m.Name, also, r.Says()), "the VM " + r.Says()
	case !r.Apart && m.Here == 0 && m.All > 0:
		return fmt.Sprintf("%s has no such VM, and the VM %s.", h.Name, r.Says()), "the VM " + r.Says()
	case !r.Apart && m.All == 0 && !r.Names(h.Rules.Self.Name, h.Rules.Self.Labels):
		return fmt.Sprintf("The VM %s, and there is no such VM in the project.", r.Says()), "the VM " + r.Says() + ", and there is no such VM"
	}
	return "", ""
}

// rules adds faults for taints that the VM does not tolerate and for required rules that the host breaks.
func (f *fit) rules(spec fleet.VMSpec) {
	if f.host.Rules == nil {
		return
	}
	if bad := spec.Placement.Untolerated(f.host.Rules.Taints); len(bad) > 0 {
		f.add("hostId", "reserved for other VMs by a taint", "%s has the taint %s, which the VM does not tolerate.", f.host.Name, strings.Join(bad, ", "))
	}
	for i, r := range spec.Rules {
		if why, plain := f.host.breaks(i, r); why != "" && !r.Preferred {
			f.add(fmt.Sprintf("spec.rules[%d].name", i), plain, "%s", why)
		}
	}
	if by := f.host.Rules.Shunned; len(by) > 0 {
		more := ""
		if len(by) > 1 {
			more = fmt.Sprintf(" and %d more", len(by)-1)
		}
		f.add("hostId", "VMs that must be apart from this VM", "%s has %s%s, which must be apart from this VM.", f.host.Name, by[0], more)
	}
}

// Strains returns the preferred rules that the host breaks, as text.
func (h Host) Strains(all []fleet.PlacementRule) (out []string) {
	for i, r := range all {
		if why, _ := h.breaks(i, r); why != "" && r.Preferred {
			out = append(out, strings.TrimSuffix(r.Says(), "."))
		}
	}
	return out
}

// Broken returns the indexes of the required rules that the VM's host breaks. An affinity rule is not broken when
// none of the VMs that it names exists.
func Broken(all []fleet.PlacementRule, h Host) []int {
	out := []int{}
	for i, r := range all {
		unmatched := !r.OnHosts() && !r.Apart && h.Rules != nil && h.Rules.Mates[i].All == 0
		if why, _ := h.breaks(i, r); why != "" && !r.Preferred && !unmatched {
			out = append(out, i)
		}
	}
	return out
}
