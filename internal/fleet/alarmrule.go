package fleet

import (
	"math"
	"slices"
	"time"
)

// AlarmRule says when alarms are raised: for some objects and one condition.
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
	// Threshold is where the condition begins to hold, in the condition's unit. A value from Critical makes the alarm
	// critical. A raised alarm holds until the value has passed Clear. nil: none.
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
	Rated    bool // the objects have severities of their own, which replace the rule's
}

// alarmConditions is the table of conditions.
var alarmConditions = []AlarmCondition{
	{Key: "host.lost", Type: TypeHost, Label: "Host lost", Cluster: true, Labels: true},
	{Key: "host.degraded", Type: TypeHost, Label: "Hypervisor does not answer", Reported: true, Cluster: true, Labels: true},
	{Key: "host.conflict", Type: TypeHost, Label: "Host identity used twice", Cluster: true, Labels: true},
	{Key: "host.certificate", Type: TypeHost, Label: "Agent certificate ends", Unit: "hours", Default: 4, Max: 24, Below: true, Reported: true, Cluster: true, Labels: true},
	{Key: "host.rejoin", Type: TypeHost, Label: "Offline host must join again", Unit: "days", Default: 3, Max: 30, Below: true, Cluster: true, Labels: true},
	{Key: "host.health", Type: TypeHost, Label: "Health policy", Cluster: true, Labels: true, Rated: true},
	{Key: "pool.unhealthy", Type: TypePool, Label: "Pool unhealthy", Reported: true, Cluster: true},
	{Key: "pool.full", Type: TypePool, Label: "Pool full", Unit: "%", Default: 90, Max: 100, Reported: true, Cluster: true},
	{Key: "pool.predicted", Type: TypePool, Label: "Pool predicted full", Unit: "days", Default: 7, Max: 365, Below: true, Reported: true, Cluster: true},
	{Key: "network.unhealthy", Type: TypeNetwork, Label: "Network unhealthy", Reported: true, Cluster: true},
	{Key: "vm.io", Type: TypeVM, Label: "VM paused by I/O error", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "vm.disk", Type: TypeVM, Label: "VM disk missing", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "vm.expiry", Type: TypeVM, Label: "VM expires soon or has expired", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "vm.fault", Type: TypeVM, Label: "Other VM fault", Reported: true, Cluster: true, Labels: true, Project: true},
	{Key: "project.soft", Type: TypeProject, Label: "Project above a soft limit", Project: true},
	{Key: "drift", Label: "Drift", Reported: true, Cluster: true, Project: true},
	{Key: "task.failed", Label: "Task failed", Unit: "failures per hour", Default: 1, Max: 1000, Project: true},
	{Key: AlarmMetricCondition, Label: "Metric", Unit: "of the metric", Max: math.MaxFloat64, Reported: true, Cluster: true, Labels: true, Project: true},
}

// AlarmConditions returns the conditions of alarm rules.
func AlarmConditions() []AlarmCondition { return slices.Clone(alarmConditions) }

// AlarmConditionOf returns the condition with the key.
func AlarmConditionOf(key string) (c AlarmCondition, ok bool) {
	for _, c := range alarmConditions {
		if c.Key == key {
			return c, true
		}
	}
	return c, false
}

// MetricInfo returns the rule's metric, if its condition is on a metric.
func (s AlarmRuleSpec) MetricInfo() (m MetricInfo, ok bool) {
	if s.Condition == AlarmMetricCondition && s.Metric != nil {
		for _, m := range MetricsOf(s.Metric.Type) {
			if m.Name == s.Metric.Name {
				return m, true
			}
		}
	}
	return m, false
}
