package alarm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/alarm"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// RuleListPage is the list of alarm rules.
type RuleListPage struct {
	kit.List
	Actor fleet.Actor
	Rules []fleet.AlarmRuleView
}

// RuleColumns are the columns of the list of alarm rules.
var RuleColumns = kit.Columns{
	{Key: "severity", Label: "Severity"},
	{Key: "condition", Label: "Condition"},
	{Key: "scope", Label: "Scope"},
	{Key: "state", Label: "State"},
	{Key: "open", Label: "Open alarms", Class: "num"},
	{Key: "description", Label: "Description", OnRequest: true},
	{Key: "id", Label: "UUID", OnRequest: true},
}

// RuleCSV are the columns of the export of alarm rules.
var RuleCSV = []kit.CSVColumn[fleet.AlarmRuleView]{
	{Name: "id", Value: func(v *fleet.AlarmRuleView) string { return string(v.ID) }},
	{Name: "name", Value: func(v *fleet.AlarmRuleView) string { return v.Name }},
	{Name: "severity", Value: func(v *fleet.AlarmRuleView) string { return string(v.Spec.Severity) }},
	{Name: "condition", Value: func(v *fleet.AlarmRuleView) string { return alarm.ConditionText(v.Spec) }},
	{Name: "enabled", Value: func(v *fleet.AlarmRuleView) string { return strconv.FormatBool(!v.Spec.Disabled) }},
	{Name: "openAlarms", Value: func(v *fleet.AlarmRuleView) string { return strconv.Itoa(v.Open) }},
	{Name: "description", Value: func(v *fleet.AlarmRuleView) string { return v.Spec.Description }},
}

func (p *RuleListPage) table() kit.Table[fleet.AlarmRuleView] {
	return kit.Table[fleet.AlarmRuleView]{
		List: &p.List, ID: "alarm-rule-rows", Live: "alarm-rules", Every: "30s", Label: "Alarm rules", Type: "rule", Head: kit.NameColumn,
		Items: p.Rules, EmptyContent: emptyRulesNote(),
		Row: func(v *fleet.AlarmRuleView) kit.Row {
			return kit.Row{ID: "alarm-rule-" + string(v.ID), Name: v.Name, Href: views.AlarmRulePath(v.ID)}
		},
		RowCells: ruleRow,
	}
}

func newRuleAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New rule", Href: "/alarm-rules/new"}.RequirePermission(a, policy.InfraChange)
}

// scopeText describes the scope of a rule.
func scopeText(s fleet.AlarmScope, names ScopeNames) string {
	var parts []string
	if s.ClusterID != "" {
		parts = append(parts, "cluster "+kit.OptionText(names.Clusters, string(s.ClusterID)))
	}
	if s.ProjectID != "" {
		parts = append(parts, "project "+kit.OptionText(names.Projects, string(s.ProjectID)))
	}
	if s.Labels != "" {
		parts = append(parts, "labels "+s.Labels)
	}
	if s.Subject != "" {
		parts = append(parts, "one object")
	}
	if len(parts) == 0 {
		return "Fleet"
	}
	return strings.Join(parts, ", ")
}

// ScopeNames are the clusters and projects that a scope can name.
type ScopeNames struct{ Clusters, Projects []kit.Option }

// RulePage shows the form of a new or existing rule.
type RulePage struct {
	Actor fleet.Actor
	Rule  fleet.AlarmRuleView // empty ID: a new rule
	Form  RuleForm
	Names ScopeNames
}

// RuleForm holds an alarm rule as typed.
type RuleForm struct {
	Name, Description, Severity, Condition string
	Threshold, Critical, Clear             string
	Below, Disabled                        bool
	ForMinutes, Cluster, Project           string
	Labels, Subject                        string
	Generation                             int64
	Errors                                 kit.Errors
}

func (p RulePage) isNew() bool { return p.Rule.ID == "" }

func (p RulePage) path(below ...string) string { return views.AlarmRulePath(p.Rule.ID, below...) }

func (p RulePage) formAction() string {
	if p.isNew() {
		return "/alarm-rules"
	}
	return p.path("edit")
}

func (p RulePage) title() string {
	if p.isNew() {
		return "New alarm rule"
	}
	return p.Rule.Name
}

func (p RulePage) deleteAction() kit.ActionButton {
	return kit.ActionButton{Icon: "trash-2", Word: "Delete rule", Href: p.path("delete"), Dialog: true, Danger: true}.RequirePermission(p.Actor, policy.InfraChange)
}

// conditionOptions are the conditions on states, and then those on metrics: "metric vm cpu.usage".
func conditionOptions() (out []kit.Option) {
	for _, c := range fleet.AlarmConditions() {
		if c.Key != fleet.AlarmMetricCondition {
			text := c.Label
			if c.Unit != "" {
				text += " (" + c.Unit + ")"
			}
			out = append(out, kit.Option{Value: c.Key, Text: text})
		}
	}
	for _, of := range []struct {
		typ  fleet.ResourceType
		word string
	}{{fleet.TypeVM, "VM"}, {fleet.TypeHost, "Host"}, {fleet.TypePool, "Pool"}} {
		for _, m := range fleet.MetricsOf(of.typ) {
			if strings.Count(m.Name, ".") > 1 { // of one GPU
				continue
			}
			spec := fleet.AlarmRuleSpec{Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: of.typ, Name: m.Name}}
			out = append(out, kit.Option{Value: MetricConditionValue(*spec.Metric), Text: of.word + ": " + m.Chart + ", " + strings.ToLower(m.Title[:1]) + m.Title[1:] + unitText(alarm.UnitOf(spec))})
		}
	}
	return out
}

func unitText(unit string) string {
	if unit = strings.TrimSpace(unit); unit == "" {
		return ""
	}
	return " (" + unit + ")"
}

// MetricConditionValue is the value of the option of a metric.
func MetricConditionValue(m fleet.AlarmMetric) string {
	return fleet.AlarmMetricCondition + " " + string(m.Type) + " " + m.Name
}

// ParseCondition returns the condition and the metric of an option's value.
func ParseCondition(value string) (condition string, metric *fleet.AlarmMetric) {
	parts := strings.Split(value, " ")
	if len(parts) != 3 || parts[0] != fleet.AlarmMetricCondition {
		return value, nil
	}
	return parts[0], &fleet.AlarmMetric{Type: fleet.ResourceType(parts[1]), Name: parts[2]}
}

// showFor returns the attributes of a field that only some conditions have.
func showFor(has func(c fleet.AlarmCondition, metric bool) bool) templ.Attributes {
	var out []string
	for _, o := range conditionOptions() {
		key, metric := ParseCondition(o.Value)
		if c, ok := fleet.AlarmConditionOf(key); ok && has(c, metric != nil) {
			out = append(out, o.Value)
		}
	}
	return templ.Attributes{"data-show-when": "condition=" + strings.Join(out, "|")}
}

func hasThreshold(c fleet.AlarmCondition, _ bool) bool { return c.Unit != "" }

func isOnMetric(_ fleet.AlarmCondition, metric bool) bool { return metric }

func severityOptions() []kit.Option {
	out := make([]kit.Option, len(fleet.AlarmSeverities))
	for i, o := range fleet.AlarmSeverities {
		out[i] = kit.Option{Value: o.Value, Text: o.Text}
	}
	return out
}

// NewRuleForm returns the form of a rule.
func NewRuleForm(v fleet.AlarmRule) RuleForm {
	number := func(n *float64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	s := v.Spec
	f := RuleForm{
		Name: v.Name, Description: s.Description, Severity: string(s.Severity), Condition: s.Condition, Threshold: number(s.Threshold), Critical: number(s.Critical),
		Clear: number(s.Clear), Disabled: s.Disabled, Cluster: string(s.Scope.ClusterID), Project: string(s.Scope.ProjectID), Labels: s.Scope.Labels,
		Subject: string(s.Scope.Subject), Generation: v.Generation,
	}
	if s.Metric != nil {
		f.Condition, f.Below = MetricConditionValue(*s.Metric), s.Metric.Below
	}
	if s.ForSeconds > 0 {
		minutes := float64(s.ForSeconds) / 60
		f.ForMinutes = number(&minutes)
	}
	return f
}

// withAny returns the options after one for no choice.
func withAny(text string, options []kit.Option) []kit.Option {
	return slices.Concat([]kit.Option{{Text: text}}, options)
}

func ruleAlarmsPath(v fleet.AlarmRuleView) string {
	return groupAlarmsPath(fleet.AlarmGroup{RuleName: v.Name})
}

func (p RulePage) submitWord() string {
	if p.isNew() {
		return "Create rule"
	}
	return "Save"
}

func (p RulePage) conditionError() string {
	return cmp.Or(p.Form.Errors.At("spec.condition"), p.Form.Errors.At("spec.metric"))
}

func (p RulePage) thresholdField(name, label, value, hint string) kit.Field {
	return kit.Field{Name: name, Label: label, Value: value, Short: true, Error: p.Form.Errors.At("spec." + name), Hint: hint, Attrs: templ.Attributes{"inputmode": "decimal"}, WrapperAttrs: showFor(hasThreshold)}
}
