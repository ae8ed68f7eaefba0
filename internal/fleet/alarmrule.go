package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxAlarmRules is the maximum number of alarm rules.
const MaxAlarmRules = 200

// AlarmRule says for which objects and for which condition alarms are raised.
type AlarmRule struct {
	ID         AlarmRuleID   `json:"id"`
	Name       string        `json:"name"`
	Builtin    string        `json:"builtin,omitempty"` // name of a default rule; empty: made by a user
	Spec       AlarmRuleSpec `json:"spec"`
	Generation int64         `json:"generation"`
	CreatedAt  time.Time     `json:"createdAt"`
}

// AlarmRuleView is an alarm rule as the API and pages show it.
type AlarmRuleView struct {
	AlarmRule
	Open int `json:"open"` // number of open alarms
}

// AlarmRuleSpec is the configuration of an alarm rule by users.
type AlarmRuleSpec struct {
	Description string        `json:"description,omitempty"` // shown in each alarm, for example what to do
	Disabled    bool          `json:"disabled,omitempty"`
	Severity    AlarmSeverity `json:"severity"`
	Condition   string        `json:"condition"`        // key of AlarmConditions
	Metric      *AlarmMetric  `json:"metric,omitempty"` // only of the condition "metric"
	// Threshold is the value from which the condition holds, in the condition's unit. A value from Critical makes the
	// alarm critical. A raised alarm holds until the value has passed Clear. nil: none.
	Threshold  *float64   `json:"threshold,omitempty"`
	Critical   *float64   `json:"critical,omitempty"`
	Clear      *float64   `json:"clear,omitempty"`
	ForSeconds int        `json:"forSeconds,omitempty" doc:"How long the condition must hold before an alarm is raised"`
	Scope      AlarmScope `json:"scope,omitzero"`
}

// AlarmMetric names a metric of VMs, hosts or pools.
type AlarmMetric struct {
	Type  ResourceType `json:"type"`
	Name  string       `json:"name"`
	Below bool         `json:"below,omitempty"` // the condition holds for values below the threshold
}

// AlarmScope limits a rule to some objects. All its conditions must be met. The zero value is the fleet.
type AlarmScope struct {
	ClusterID ClusterID `json:"clusterId,omitempty"`
	ProjectID ProjectID `json:"projectId,omitempty"`
	Labels    string    `json:"labels,omitempty"`  // selector of labels of VMs or hosts
	Subject   Subject   `json:"subject,omitempty"` // one object
}

// AlarmMetricCondition is the condition on a metric.
const AlarmMetricCondition = "metric"

// AlarmCondition describes one condition on the state of objects, or AlarmMetricCondition.
type AlarmCondition struct {
	Key   string
	Type  ResourceType // type of the objects; of a metric: empty
	Label string       // "Host lost"
	Unit  string       // of the threshold; empty: the condition has no threshold
	// Default is the suggested threshold, Max the largest one.
	Default, Max float64
	Below        bool // the condition holds for values up to the threshold, such as the time until an event
	// Reported says that hosts report the state, so that a host without a fresh report neither raises nor clears.
	Reported bool
	Cluster  bool // the scope can be a cluster
	Labels   bool // the scope can be a label selector
	Project  bool // the scope can be a project
}

const perHour = "failures per hour"

// alarmConditions is the table of conditions.
var alarmConditions = []AlarmCondition{
	{Key: "host.lost", Type: TypeHost, Label: "Host lost", Cluster: true, Labels: true},
	{Key: "host.degraded", Type: TypeHost, Label: "Hypervisor does not answer", Reported: true, Cluster: true, Labels: true},
	{Key: "host.conflict", Type: TypeHost, Label: "Host identity used twice", Cluster: true, Labels: true},
	{Key: "host.certificate", Type: TypeHost, Label: "Agent certificate ends", Unit: "hours", Default: 4, Max: 24, Below: true, Reported: true, Cluster: true, Labels: true},
	{Key: "host.rejoin", Type: TypeHost, Label: "Offline host must join again", Unit: "days", Default: 3, Max: 30, Below: true, Cluster: true, Labels: true},
	{Key: "pool.unhealthy", Type: TypePool, Label: "Pool unhealthy", Reported: true, Cluster: true},
	{Key: "pool.full", Type: TypePool, Label: "Pool full", Unit: "%", Default: 90, Max: 100, Reported: true, Cluster: true},
	{Key: "pool.predicted", Type: TypePool, Label: "Pool predicted full", Unit: "days", Default: 7, Max: 365, Below: true, Reported: true, Cluster: true},
	{Key: "network.unhealthy", Type: TypeNetwork, Label: "Network unhealthy", Reported: true, Cluster: true},
	{Key: "vm.io", Type: TypeVM, Label: "VM paused by I/O error", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "vm.disk", Type: TypeVM, Label: "VM disk missing", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "vm.fault", Type: TypeVM, Label: "Other VM fault", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "drift", Label: "Drift", Reported: true, Cluster: true, Project: true},
	{Key: "task.failed", Label: "Task failed", Unit: perHour, Default: 1, Max: 1000, Project: true},
	{Key: AlarmMetricCondition, Label: "Metric", Unit: "of the metric", Max: math.MaxFloat64, Reported: true, Cluster: true, Labels: true, Project: true},
}

// AlarmConditions returns the conditions of alarm rules.
func AlarmConditions() []AlarmCondition { return slices.Clone(alarmConditions) }

// AlarmConditionOf returns the condition with the key.
func AlarmConditionOf(key string) (AlarmCondition, bool) {
	i := slices.IndexFunc(alarmConditions, func(c AlarmCondition) bool { return c.Key == key })
	if i < 0 {
		return AlarmCondition{}, false
	}
	return alarmConditions[i], true
}

// MetricInfo returns the rule's metric, if its condition is on a metric.
func (s AlarmRuleSpec) MetricInfo() (MetricInfo, bool) {
	if s.Condition != AlarmMetricCondition || s.Metric == nil {
		return MetricInfo{}, false
	}
	all := MetricsOf(s.Metric.Type)
	i := slices.IndexFunc(all, func(m MetricInfo) bool { return m.Name == s.Metric.Name })
	if i < 0 {
		return MetricInfo{}, false
	}
	return all[i], true
}

// Limits of durations of alarm rules.
const maxAlarmSeconds = 30 * 24 * 3600

// Check adds an error below at for each invalid field of the spec.
func (s AlarmRuleSpec) Check(c *Checks, at string) {
	CheckDescription(c, at+".description", s.Description)
	if !slices.ContainsFunc(AlarmSeverities, func(o Option) bool { return o.Value == string(s.Severity) }) {
		c.Add(at+".severity", "Choose critical, warning or info.")
	}
	if s.ForSeconds < 0 || s.ForSeconds > maxAlarmSeconds {
		c.Add(at+".forSeconds", "Give a duration of at most 30 days.")
	}
	k, ok := AlarmConditionOf(s.Condition)
	if !ok {
		c.Add(at+".condition", "There is no such condition.")
		return
	}
	switch _, known := s.MetricInfo(); {
	case s.Condition != AlarmMetricCondition && s.Metric != nil:
		c.Add(at+".metric", "Only the condition on a metric has a metric.")
	case s.Condition == AlarmMetricCondition && !known:
		c.Add(at+".metric", "Choose a metric of VMs, hosts or pools.")
	case known:
		k.Type = s.Metric.Type
	}
	s.checkThresholds(c, at, k)
	s.checkScope(c, at+".scope", k)
}

func (s AlarmRuleSpec) checkThresholds(c *Checks, at string, k AlarmCondition) {
	if k.Unit == "" {
		if s.Threshold != nil || s.Critical != nil || s.Clear != nil {
			c.Add(at+".threshold", "This condition has no threshold.")
		}
		return
	}
	ordered := func(x, y *float64) bool { return x == nil || y == nil || *x == *y || (*x < *y) != s.below() }
	for _, f := range []struct {
		name  string
		value *float64
	}{{"threshold", s.Threshold}, {"critical", s.Critical}, {"clear", s.Clear}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= k.Max) { // also true for NaN
			c.Add(at+"."+f.name, "Give a number from 0 to %s.", FormatAlarmValue(min(k.Max, 1e18), ""))
		}
	}
	switch {
	case s.Threshold == nil:
		c.Add(at+".threshold", "Enter the threshold.")
	case !ordered(s.Threshold, s.Critical):
		c.Add(at+".critical", "The critical threshold lies on the wrong side of the threshold.")
	case !ordered(s.Clear, s.Threshold):
		c.Add(at+".clear", "The value that clears the alarm lies on the wrong side of the threshold.")
	}
}

func (s AlarmRuleSpec) checkScope(c *Checks, at string, k AlarmCondition) {
	refuse := func(field string) { c.Add(at+"."+field, "This condition has no such scope.") }
	if s.Scope.ClusterID != "" && !k.Cluster {
		refuse("clusterId")
	}
	if s.Scope.ProjectID != "" && (!k.Project || k.Type != TypeVM && k.Type != "") {
		refuse("projectId")
	}
	if s.Scope.Labels != "" {
		if ParseSelector(c, at+".labels", s.Scope.Labels); !k.Labels || k.Type == TypePool {
			refuse("labels")
		}
	}
	if kind, _ := s.Scope.Subject.ResourceAndID(); s.Scope.Subject != "" && (len(s.Scope.Subject) > 200 || k.Type != "" && kind != string(k.Type)) {
		c.Add(at+".subject", "Choose an object of the condition's type.")
	}
}

// below reports whether the condition holds for values up to the threshold.
func (s AlarmRuleSpec) below() bool {
	if s.Metric != nil {
		return s.Metric.Below
	}
	k, _ := AlarmConditionOf(s.Condition)
	return k.Below
}

// Holds reports whether the condition holds for the value. open says that the alarm is raised, so that it holds until the
// value has passed Clear.
func (s AlarmRuleSpec) Holds(value float64, open bool) bool {
	if s.Threshold == nil || math.IsNaN(value) {
		return false
	}
	limit := *s.Threshold
	if open && s.Clear != nil {
		limit = *s.Clear
	}
	if s.below() {
		return value <= limit
	}
	return value >= limit
}

// SeverityOf returns the severity of an alarm with the value.
func (s AlarmRuleSpec) SeverityOf(value float64) AlarmSeverity {
	if s.Critical != nil && !math.IsNaN(value) && (value >= *s.Critical != s.below() || value == *s.Critical) {
		return AlarmCritical
	}
	return s.Severity
}

// ValueUnit returns the unit of the rule's values for people, with a leading space if it is a word: " %".
func (s AlarmRuleSpec) ValueUnit() string {
	if m, ok := s.MetricInfo(); ok {
		return metricUnitWords[m.Unit]
	}
	if k, ok := AlarmConditionOf(s.Condition); ok && k.Unit != "" {
		return " " + k.Unit
	}
	return ""
}

var metricUnitWords = map[MetricUnit]string{
	UnitPercent: " %", UnitBytes: " B", UnitBytesPerSecond: " B/s", UnitPerSecond: "/s", UnitSeconds: " s", UnitCelsius: " °C", UnitWatts: " W",
}

// FormatAlarmValue formats a value with three significant digits and its unit: "12.3 %".
func FormatAlarmValue(v float64, unit string) string {
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64) + unit
	}
	prefix := 0
	for ; math.Abs(v) >= 1000 && prefix < 5; prefix++ {
		v /= 1000
	}
	number := strconv.FormatFloat(v, 'f', -1, 64)
	if math.Abs(v) != math.Trunc(v) {
		number = strconv.FormatFloat(v, 'g', 3, 64)
	}
	return number + " " + []string{"", "k", "M", "G", "T", "P"}[prefix] + strings.TrimPrefix(unit, " ")
}

// ConditionText describes the condition: "CPU usage (CPU) of a VM is at least 90 % for 5 minutes".
func (s AlarmRuleSpec) ConditionText() string {
	k, _ := AlarmConditionOf(s.Condition)
	what, compare := k.Label, ": at least"
	if k.Below {
		compare = " within"
	}
	if m, ok := s.MetricInfo(); ok {
		what = fmt.Sprintf("%s (%s) of a %s", m.Title, m.Chart, map[ResourceType]string{TypeVM: "VM", TypeHost: "host", TypePool: "pool"}[s.Metric.Type])
		compare = " is at least"
		if s.Metric.Below {
			compare = " is at most"
		}
	}
	if s.Threshold != nil {
		what += compare + " " + FormatAlarmValue(*s.Threshold, s.ValueUnit())
	}
	if s.ForSeconds > 0 {
		what += " for " + alarmDurationText(s.ForSeconds)
	}
	return what
}

// Sentence describes the rule: "Warning: Pool full: at least 90 %. Critical from 97 %. Clears at 88 %."
func (s AlarmRuleSpec) Sentence() string {
	severity := string(s.Severity)
	for _, o := range AlarmSeverities {
		if o.Value == severity {
			severity = o.Text
		}
	}
	out := severity + ": " + s.ConditionText() + "."
	if s.Critical != nil {
		out += " Critical from " + FormatAlarmValue(*s.Critical, s.ValueUnit()) + "."
	}
	if s.Clear != nil {
		out += " Clears at " + FormatAlarmValue(*s.Clear, s.ValueUnit()) + "."
	}
	return out
}

func alarmDurationText(n int) string {
	for _, u := range []struct {
		seconds int
		word    string
	}{{86400, "day"}, {3600, "hour"}, {60, "minute"}} {
		if n%u.seconds == 0 {
			if n == u.seconds {
				return "1 " + u.word
			}
			return strconv.Itoa(n/u.seconds) + " " + u.word + "s"
		}
	}
	return strconv.Itoa(n) + " seconds"
}

// Changes lists what differs between two versions of a rule, for the audit log.
func (r AlarmRule) Changes(to AlarmRule) (out []string) {
	number := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return FormatAlarmValue(*v, "")
	}
	metric := func(m *AlarmMetric) string {
		if m == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s below=%t", m.Type, m.Name, m.Below)
	}
	s, n := r.Spec, to.Spec
	for _, f := range []struct{ name, from, to string }{
		{"name", r.Name, to.Name},
		{"disabled", strconv.FormatBool(s.Disabled), strconv.FormatBool(n.Disabled)},
		{"severity", string(s.Severity), string(n.Severity)},
		{"condition", s.Condition, n.Condition},
		{"metric", metric(s.Metric), metric(n.Metric)},
		{"threshold", number(s.Threshold), number(n.Threshold)},
		{"critical", number(s.Critical), number(n.Critical)},
		{"clear", number(s.Clear), number(n.Clear)},
		{"forSeconds", strconv.Itoa(s.ForSeconds), strconv.Itoa(n.ForSeconds)},
		{"scope", fmt.Sprint(s.Scope), fmt.Sprint(n.Scope)},
	} {
		if f.from != f.to {
			out = append(out, f.name+" "+noneIfEmpty(f.from)+" → "+noneIfEmpty(f.to))
		}
	}
	if s.Description != n.Description {
		out = append(out, "description")
	}
	return out
}

func alarmNumber(v float64) *float64 { return &v }

// DefaultAlarmRule is a rule that ships with the product.
type DefaultAlarmRule struct {
	Builtin, Name string
	Spec          AlarmRuleSpec
}

// DefaultAlarmRules are the rules that ship with the product. A rule that a user has changed or deleted is not added
// again.
func DefaultAlarmRules() []DefaultAlarmRule {
	day := 24 * 3600
	return []DefaultAlarmRule{
		{"host-lost", "host-lost", AlarmRuleSpec{Severity: AlarmCritical, Condition: "host.lost", ForSeconds: 60}},
		{"host-degraded", "hypervisor-not-answering", AlarmRuleSpec{Severity: AlarmCritical, Condition: "host.degraded", ForSeconds: 60}},
		{"host-conflict", "host-identity-used-twice", AlarmRuleSpec{Severity: AlarmCritical, Condition: "host.conflict"}},
		{"host-certificate", "agent-certificate-near-its-end", AlarmRuleSpec{Severity: AlarmWarning, Condition: "host.certificate", Threshold: alarmNumber(4), Critical: alarmNumber(1), ForSeconds: 300}},
		{"host-rejoin", "offline-host-must-soon-join-again", AlarmRuleSpec{Severity: AlarmWarning, Condition: "host.rejoin", Threshold: alarmNumber(3), ForSeconds: 300}},
		{"host-clock", "host-clock-wrong", AlarmRuleSpec{
			Severity: AlarmWarning, Condition: AlarmMetricCondition, Metric: &AlarmMetric{Type: TypeHost, Name: "clock.offset"},
			Threshold: alarmNumber(5), Clear: alarmNumber(2), ForSeconds: 300,
		}},
		{"pool-unhealthy", "pool-unhealthy", AlarmRuleSpec{Severity: AlarmCritical, Condition: "pool.unhealthy", ForSeconds: 30}},
		{"pool-full", "pool-full", AlarmRuleSpec{Severity: AlarmWarning, Condition: "pool.full", Threshold: alarmNumber(90), Critical: alarmNumber(97), Clear: alarmNumber(88)}},
		{"pool-predicted", "pool-predicted-full", AlarmRuleSpec{Severity: AlarmWarning, Condition: "pool.predicted", Threshold: alarmNumber(7), Clear: alarmNumber(10)}},
		{"network-unhealthy", "network-unhealthy", AlarmRuleSpec{Severity: AlarmCritical, Condition: "network.unhealthy", ForSeconds: 30}},
		{"vm-io", "vm-paused-by-io-error", AlarmRuleSpec{Severity: AlarmCritical, Condition: "vm.io"}},
		{"vm-disk", "vm-disk-missing", AlarmRuleSpec{Severity: AlarmCritical, Condition: "vm.disk"}},
		{"vm-fault", "vm-fault", AlarmRuleSpec{Severity: AlarmWarning, Condition: "vm.fault", ForSeconds: 60}},
		{"cpu-steal", "vm-waits-for-cpu", AlarmRuleSpec{
			Severity: AlarmWarning, Condition: AlarmMetricCondition, Metric: &AlarmMetric{Type: TypeVM, Name: "cpu.steal"},
			Threshold: alarmNumber(20), Clear: alarmNumber(10), ForSeconds: 600,
		}},
		{"memory-pressure", "host-memory-pressure", AlarmRuleSpec{
			Severity: AlarmWarning, Condition: AlarmMetricCondition, Metric: &AlarmMetric{Type: TypeHost, Name: "pressure.memory"},
			Threshold: alarmNumber(20), Critical: alarmNumber(60), Clear: alarmNumber(10), ForSeconds: 300,
		}},
		{"drift", "drift-older-than-a-day", AlarmRuleSpec{Severity: AlarmWarning, Condition: "drift", ForSeconds: day}},
		{"task-failed", "task-failed", AlarmRuleSpec{Severity: AlarmWarning, Condition: "task.failed", Threshold: alarmNumber(1)}},
	}
}
