package alarms

import (
	"cmp"
	"fmt"
	"strconv"

	"quantix/internal/alarm"
	"quantix/internal/fleet"
)

// ruleChanges lists what differs between two versions of a rule, for the audit log.
func ruleChanges(r, to fleet.AlarmRule) (out []string) {
	number := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return alarm.FormatValue(*v, "")
	}
	metric := func(m *fleet.AlarmMetric) string {
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
			out = append(out, f.name+" "+cmp.Or(f.from, "none")+" → "+cmp.Or(f.to, "none"))
		}
	}
	if s.Description != n.Description {
		out = append(out, "description")
	}
	return out
}
