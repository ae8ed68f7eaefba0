package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// MaxRules is the maximum number of placement rules of a VM.
const MaxRules = 16

// PlacementRule restricts the hosts of a VM. It applies when a host is chosen for the VM. A rule that is broken later
// is only reported: no VM is migrated because of it.
type PlacementRule struct {
	Apart bool `json:"apart,omitempty"` // anti-affinity; false: affinity
	// Preferred: the rule orders the possible hosts; false: hosts that break the rule are refused
	Preferred bool       `json:"preferred,omitempty"`
	Of        RuleTarget `json:"of"`
	Name      string     `json:"name"` // name of a VM in the same project, or of a host; for the kinds with labels, a label selector in the syntax of Selector
}

// RuleTarget is the kind of object that a placement rule names.
type RuleTarget string

const (
	RuleVM         RuleTarget = "vm"         // the VM with the name, in the same project
	RuleVMLabels   RuleTarget = "vmLabels"   // VMs of the same project with the labels
	RuleHost       RuleTarget = "host"       // the host with the name
	RuleHostLabels RuleTarget = "hostLabels" // hosts with the labels
)

// RuleKinds are the choices of RuleTarget in the form.
var RuleKinds = []Option{{string(RuleVM), "the VM"}, {string(RuleVMLabels), "VMs with labels"}, {string(RuleHost), "the host"}, {string(RuleHostLabels), "hosts with labels"}}

// NamesHosts reports whether the rule names hosts. Such rules are only for users who may see hosts.
func (r PlacementRule) NamesHosts() bool { return r.Of == RuleHost || r.Of == RuleHostLabels }

// LabelSelector returns the rule's label selector; empty for a rule by name.
func (r PlacementRule) LabelSelector() Selector {
	if r.Of != RuleVMLabels && r.Of != RuleHostLabels {
		return Selector{}
	}
	return ParseSelector(&Checks{}, "", r.Name)
}

// Matches reports whether the rule applies to a VM or host with that name and labels.
func (r PlacementRule) Matches(name string, labels map[string]string) bool {
	if s := r.LabelSelector(); !s.IsEmpty() {
		return s.Matches(labels)
	}
	return (r.Of == RuleVM || r.Of == RuleHost) && r.Name == name
}

// Text returns the rule as text: "must be apart from VMs with tier=web".
func (r PlacementRule) Text() string {
	must, with := "must", "be with"
	if r.Preferred {
		must = "should"
	}
	switch {
	case r.Apart && r.NamesHosts():
		with = "not be on"
	case r.Apart:
		with = "be apart from"
	case r.NamesHosts():
		with = "be on"
	}
	what := map[RuleTarget]string{RuleVM: "the VM ", RuleVMLabels: "VMs with ", RuleHost: "the host ", RuleHostLabels: "hosts with "}[r.Of]
	return must + " " + with + " " + what + r.Name
}

// TextWithoutHosts returns the rule as text, without the names of hosts.
func (r PlacementRule) TextWithoutHosts() string {
	switch r.Of {
	case RuleHost:
		r.Name = "named in the rule"
	case RuleHostLabels:
		r.Name = "certain labels"
	}
	return r.Text()
}

func (r PlacementRule) check(c *Checks, at string) {
	switch r.Of {
	case RuleVM:
		CheckName(c, at+".name", r.Name)
	case RuleHost:
		if !hostAddrForm.MatchString(r.Name) {
			c.Add(at+".name", "Enter the name of a host.")
		}
	case RuleVMLabels, RuleHostLabels:
		if strings.TrimSpace(r.Name) == "" {
			c.Add(at+".name", "Enter labels such as tier=web, or tier alone for any value.")
			return
		}
		ParseSelector(c, at+".name", r.Name)
	default:
		c.Add(at+".of", "The kind of a rule must be vm, vmLabels, host or hostLabels.")
	}
}

func checkRules(c *Checks, at string, all []PlacementRule) {
	if len(all) > MaxRules {
		c.Add(at, "A VM has at most %d placement rules.", MaxRules)
		return
	}
	for i, r := range all {
		here := fmt.Sprintf("%s[%d]", at, i)
		r.check(c, here)
		k := slices.IndexFunc(all[:i], func(o PlacementRule) bool { return o.Of == r.Of && o.Name == r.Name })
		switch {
		case k < 0 || r.Name == "":
		case all[k].Apart == r.Apart:
			c.Add(here+".name", "Rule %d is the same.", k+1)
		case !all[k].Preferred && !r.Preferred:
			c.Add(here+".name", "Rule %d is the opposite.", k+1)
		}
	}
}

// PlacementRulesText returns the rules as text, without the names of hosts.
func PlacementRulesText(all []PlacementRule) string {
	words := make([]string, len(all))
	for i, r := range all {
		words[i] = r.TextWithoutHosts()
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, "; ")
}

// SplitRules splits the rules into rules on VMs and rules on hosts.
func SplitRules(all []PlacementRule) (plain, hosts []PlacementRule) {
	for _, r := range all {
		if r.NamesHosts() {
			hosts = append(hosts, r)
		} else {
			plain = append(plain, r)
		}
	}
	return plain, hosts
}

// RuleFault returns the fault of a VM whose host breaks required rules, or nil. If plain is true, the fault's text
// contains no names of hosts.
func (vm VM) RuleFault(plain bool) *Fault {
	var broken []string
	for _, i := range vm.Misplaced {
		if i >= 0 && i < len(vm.Spec.Rules) {
			r := vm.Spec.Rules[i]
			if plain {
				broken = append(broken, r.TextWithoutHosts())
			} else {
				broken = append(broken, r.Text())
			}
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return &Fault{Code: FaultPlacement, Text: "The VM " + strings.Join(broken, "; the VM ") + ". Its host breaks this: change the rule, or migrate a VM."}
}
