package alarm

import (
	"math"
	"slices"

	"quantix/internal/fleet"
)

// Limits of durations of alarm rules.
const maxAlarmSeconds = 30 * 24 * 3600

// CheckRule adds an error below at for each invalid field of the spec.
func CheckRule(c *fleet.Checks, at string, s fleet.AlarmRuleSpec) {
	fleet.CheckDescription(c, at+".description", s.Description)
	if !slices.ContainsFunc(fleet.AlarmSeverities, func(o fleet.Option) bool { return o.Value == string(s.Severity) }) {
		c.Add(at+".severity", "Choose critical, warning or info.")
	}
	if s.ForSeconds < 0 || s.ForSeconds > maxAlarmSeconds {
		c.Add(at+".forSeconds", "Give a duration of at most 30 days.")
	}
	k, ok := fleet.AlarmConditionOf(s.Condition)
	if !ok {
		c.Add(at+".condition", "There is no such condition.")
		return
	}
	switch _, known := s.MetricInfo(); {
	case s.Condition != fleet.AlarmMetricCondition && s.Metric != nil:
		c.Add(at+".metric", "Only the condition on a metric has a metric.")
	case s.Condition == fleet.AlarmMetricCondition && !known:
		c.Add(at+".metric", "Choose a metric of VMs, hosts or pools.")
	case known:
		k.Type = s.Metric.Type
	}
	checkThresholds(c, at, s, k)
	checkScope(c, at+".scope", s.Scope, k)
}

func checkThresholds(c *fleet.Checks, at string, s fleet.AlarmRuleSpec, k fleet.AlarmCondition) {
	if k.Unit == "" {
		if s.Threshold != nil || s.Critical != nil || s.Clear != nil {
			c.Add(at+".threshold", "This condition has no threshold.")
		}
		return
	}
	ordered := func(x, y *float64) bool { return x == nil || y == nil || *x == *y || (*x < *y) != below(s) }
	for _, f := range []struct {
		name  string
		value *float64
	}{{"threshold", s.Threshold}, {"critical", s.Critical}, {"clear", s.Clear}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= k.Max) { // also true for NaN
			c.Add(at+"."+f.name, "Give a number from 0 to %s.", FormatValue(min(k.Max, 1e18), ""))
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

func checkScope(c *fleet.Checks, at string, of fleet.AlarmScope, k fleet.AlarmCondition) {
	refuse := func(field string) { c.Add(at+"."+field, "This condition has no such scope.") }
	if of.ClusterID != "" && !k.Cluster {
		refuse("clusterId")
	}
	if of.ProjectID != "" && (!k.Project || k.Type != fleet.TypeVM && k.Type != "") {
		refuse("projectId")
	}
	if of.Labels != "" {
		if fleet.ParseSelector(c, at+".labels", of.Labels); !k.Labels || k.Type == fleet.TypePool {
			refuse("labels")
		}
	}
	if kind, _ := of.Subject.ResourceAndID(); of.Subject != "" && (len(of.Subject) > 200 || k.Type != "" && kind != string(k.Type)) {
		c.Add(at+".subject", "Choose an object of the condition's type.")
	}
}

// below reports whether the condition holds for values up to the threshold.
func below(s fleet.AlarmRuleSpec) bool {
	if s.Metric != nil {
		return s.Metric.Below
	}
	k, _ := fleet.AlarmConditionOf(s.Condition)
	return k.Below
}

// Holds reports whether the rule's condition holds for the value. open says that the alarm is raised, so that it holds until the
// value has passed Clear.
func Holds(s fleet.AlarmRuleSpec, value float64, open bool) bool {
	if s.Threshold == nil || math.IsNaN(value) {
		return false
	}
	limit := *s.Threshold
	if open && s.Clear != nil {
		limit = *s.Clear
	}
	if below(s) {
		return value <= limit
	}
	return value >= limit
}

// SeverityOf returns the severity of the rule's alarm with the value.
func SeverityOf(s fleet.AlarmRuleSpec, value float64) fleet.AlarmSeverity {
	if s.Critical != nil && !math.IsNaN(value) && (value >= *s.Critical != below(s) || value == *s.Critical) {
		return fleet.AlarmCritical
	}
	return s.Severity
}
