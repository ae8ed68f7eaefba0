package alarm

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// ConditionText describes the condition: "CPU usage (CPU) of a VM is at least 90 % for 5 minutes".
func ConditionText(s fleet.AlarmRuleSpec) string {
	k, _ := fleet.AlarmConditionOf(s.Condition)
	what, compare := k.Label, ": at least"
	if k.Below {
		compare = " within"
	}
	if m, ok := s.MetricInfo(); ok {
		what = fmt.Sprintf("%s (%s) of a %s", m.Title, m.Chart, map[fleet.ResourceType]string{fleet.TypeVM: "VM", fleet.TypeHost: "host", fleet.TypePool: "pool"}[s.Metric.Type])
		compare = " is at least"
		if s.Metric.Below {
			compare = " is at most"
		}
	}
	if s.Threshold != nil {
		what += compare + " " + FormatValue(*s.Threshold, UnitOf(s))
	}
	if s.ForSeconds > 0 {
		what += " for " + durationText(s.ForSeconds)
	}
	return what
}

// Sentence describes the rule: "Warning: Pool full: at least 90 %. Critical from 97 %. Clears at 88 %."
func Sentence(s fleet.AlarmRuleSpec) string {
	first := min(1, len(s.Severity))
	out := strings.ToUpper(string(s.Severity[:first])) + string(s.Severity[first:]) + ": " + ConditionText(s) + "."
	if s.Critical != nil {
		out += " Critical from " + FormatValue(*s.Critical, UnitOf(s)) + "."
	}
	if s.Clear != nil {
		out += " Clears at " + FormatValue(*s.Clear, UnitOf(s)) + "."
	}
	return out
}

func durationText(n int) string {
	for i, seconds := range []int{86400, 3600, 60} {
		if k := n / seconds; n%seconds == 0 {
			return strconv.Itoa(k) + " " + plural(k, []string{"day", "hour", "minute"}[i])
		}
	}
	return strconv.Itoa(n) + " " + plural(n, "second")
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// UnitOf returns the unit of a rule's values for people, with a leading space if it is a word: " %".
func UnitOf(s fleet.AlarmRuleSpec) string {
	if m, ok := s.MetricInfo(); ok {
		return metricUnitWords[m.Unit]
	}
	if k, ok := fleet.AlarmConditionOf(s.Condition); ok && k.Unit != "" {
		return " " + k.Unit
	}
	return ""
}

var metricUnitWords = map[fleet.MetricUnit]string{
	fleet.UnitPercent: " %", fleet.UnitBytes: " B", fleet.UnitBytesPerSecond: " B/s", fleet.UnitPerSecond: "/s", fleet.UnitSeconds: " s",
	fleet.UnitCelsius: " °C", fleet.UnitWatts: " W",
}

// FormatValue formats a value with three significant digits and its unit: "12.3 %".
func FormatValue(v float64, unit string) string {
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64) + unit
	}
	prefix := 0
	for ; math.Abs(v) >= 1000 && prefix < 5; prefix++ {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " " + []string{"", "k", "M", "G", "T", "P"}[prefix] + strings.TrimPrefix(unit, " ")
}
