package people

import (
	"slices"
	"strconv"

	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// RulesPage shows what a project sets for its VMs.
type RulesPage struct {
	ProjectPage
	Rules     flavor.Rules
	Form      RulesForm
	Published int          // number of flavors published to the project
	Groups    []kit.Option // security groups that NICs of the project may use
}

// RulesForm holds the rules as typed.
type RulesForm struct {
	Approval                 bool
	FlavorsOnly, ExpiryStops bool
	Pattern, Firmware, Days  string
	Groups, Locked           []string
	Errors                   kit.Errors
}

// NewRulesForm returns the form of a project's rules.
func NewRulesForm(r fleet.VMRules) RulesForm {
	f := RulesForm{Approval: r.Approval, FlavorsOnly: r.FlavorsOnly, ExpiryStops: r.ExpiryStops, Pattern: r.NamePattern, Firmware: string(r.Firmware), Locked: r.Locked}
	if r.ExpiryDays > 0 {
		f.Days = strconv.Itoa(r.ExpiryDays)
	}
	for _, id := range r.SecurityGroups {
		f.Groups = append(f.Groups, string(id))
	}
	return f
}

// Names of form fields; the ID of a security group and the key of a rule follow.
const (
	RuleGroupField = "group."
	RuleLockField  = "lock."
)

func (p RulesPage) mayChange() bool { return policy.May(p.Actor, policy.Manage, "") }

func (p RulesPage) isLocked(key string) bool { return slices.Contains(p.Rules.Locked, key) }

// valueText is the project's value of a rule.
func (p RulesPage) valueText(r flavor.Rule) string {
	if text := r.Text(p.Rules); text != "" {
		return text
	}
	if r.Lockable {
		return "No default"
	}
	return "Any"
}

// lockField is the checkbox that locks the value of a rule.
func (p RulesPage) lockField(key, label string) kit.Field {
	f := kit.Field{Name: RuleLockField + key, Label: label}
	if i := slices.Index(p.Form.Locked, key); i >= 0 {
		f.Error = p.Form.Errors.At("vmRules.locked[" + strconv.Itoa(i) + "]")
	}
	return f
}

func (p RulesPage) locks(key string) bool { return slices.Contains(p.Form.Locked, key) }

func (p RulesPage) hasGroup(id string) bool { return slices.Contains(p.Form.Groups, id) }

// sizeHint is how many flavors members can choose.
func (p RulesPage) sizeHint() string {
	if p.Published == 0 {
		return "No flavor is published to the project, so its members could create no VM."
	}
	return kit.CountText(p.Published, "flavor") + " published to the project."
}

var ruleFirmwareOptions = []kit.Option{{Text: "No default (BIOS)"}, {Value: string(fleet.UEFI), Text: "UEFI"}, {Value: string(fleet.BIOS), Text: "BIOS"}}

// defaultText is the name of a default, or how members choose without one.
func defaultText(name string) string {
	if name == "" {
		return "None: members choose"
	}
	return name
}
