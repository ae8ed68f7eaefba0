package vm

import (
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// healthCheckRow is a health check as the page shows it.
type healthCheckRow struct {
	fleet.HealthState
	icon, tone, word string
}

var healthStateLooks = map[fleet.Health]struct{ icon, tone, word string }{
	fleet.Healthy:       {"circle-check", "ok", "Healthy"},
	fleet.HealthFailing: {"circle-x", "bad", "Failing"},
	fleet.HealthUnknown: {"circle-question-mark", "unknown", "Unknown"},
}

// healthCheckRows are the VM's health checks with the results from its host. The results of an offline host are
// omitted.
func (p Page) healthCheckRows() []healthCheckRow {
	var out []healthCheckRow
	s := p.VM.Status
	for _, c := range p.VM.Spec.Health {
		state := fleet.HealthState{Check: c, State: fleet.HealthUnknown}
		switch {
		case p.VM.Phase == fleet.PhaseUnknown:
			state.Answer = "The host is offline."
		case s == nil:
			state.Answer = "The VM is not created yet."
		case !p.VM.HasGuest():
			state.Answer = "Checks run while the guest runs."
		default:
			state.Answer = "The host has not started this check yet."
			if i := slices.IndexFunc(s.Health, func(h fleet.HealthState) bool { return h.Check == c }); i >= 0 {
				state = s.Health[i]
			}
		}
		look, known := healthStateLooks[state.State]
		if !known {
			look = healthStateLooks[fleet.HealthUnknown]
		}
		out = append(out, healthCheckRow{state, look.icon, look.tone, look.word})
	}
	return out
}

// label describes the check, cut to a column's width.
func (h healthCheckRow) label() string {
	const most = 44
	text := kit.Capitalize(h.Check.TargetText())
	if len(text) > most {
		return text[:most] + "…" // paths are ASCII, so bytes can be cut
	}
	return text
}

// reactionText describes the host's reaction to a failed check, and how often the host has reacted.
func (h healthCheckRow) reactionText() string {
	switch {
	case h.Check.Action == fleet.HealthReport:
		return "Report"
	case h.Actions >= fleet.MaxHealthActions:
		return kit.Capitalize(string(h.Check.Action)) + ", given up after " + strconv.Itoa(h.Actions)
	case h.Actions > 0:
		return kit.Capitalize(string(h.Check.Action)) + ", " + strconv.Itoa(h.Actions) + " of " + strconv.Itoa(fleet.MaxHealthActions) + " times"
	}
	return kit.Capitalize(string(h.Check.Action))
}

// placementRuleRow is a placement rule as the page shows it.
type placementRuleRow struct {
	text   string
	broken bool
}

// placementRuleRows are the VM's placement rules as sentences, each with whether the VM's host breaks the rule.
func (p Page) placementRuleRows() []placementRuleRow {
	var out []placementRuleRow
	for i, r := range p.VM.Spec.Rules {
		out = append(out, placementRuleRow{kit.Capitalize(r.Text()), slices.Contains(p.VM.Misplaced, i)})
	}
	return out
}

var (
	ruleForceOptions = []kit.Option{{Value: "false", Text: "It must"}, {Value: "true", Text: "It should"}}
	ruleSideOptions  = []kit.Option{{Value: "false", Text: "be with, or on"}, {Value: "true", Text: "be apart from"}}
)

// ruleTargetOptions are the kinds of targets that the actor may name in a placement rule.
func (f Form) ruleTargetOptions() []kit.Option {
	var out []kit.Option
	for _, o := range fleet.RuleKinds {
		if f.MaySeeHosts || !(fleet.PlacementRule{Of: fleet.RuleTarget(o.Value)}).NamesHosts() {
			out = append(out, kit.Option{Value: o.Value, Text: o.Text})
		}
	}
	return out
}

func toKitOptions(all []fleet.Option) []kit.Option {
	var out []kit.Option
	for _, o := range all {
		out = append(out, kit.Option{Value: o.Value, Text: o.Text})
	}
	return out
}

// rowsSummary counts a section's rows for its heading.
func (f Form) rowsSummary(list, what string) string {
	if n := len(f.rowIndexes(list)); n > 0 {
		return kit.CountText(n, what)
	}
	return "none"
}

// isRowSectionOpen reports whether the section of a list is open: a row has an error, or the person has just added a row.
func (f Form) isRowSectionOpen(list string) bool {
	return f.Errors.ForFieldOrBelow(list) != "" || f.Typed.Get("add") == list
}

func numberField(f kit.Field, placeholder string) kit.Field {
	f.Short = true
	f.Attrs = map[string]any{"inputmode": "numeric", "placeholder": placeholder}
	return f
}
